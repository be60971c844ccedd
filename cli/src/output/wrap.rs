//! Sentences within columns.

/// Breaks `text` between words so that it stands between columns `indent` and `width`; a longer word stands alone and sticks out.
/// Ends with a line break.
pub(super) fn wrap(text: &str, indent: usize, width: usize) -> String {
    let mut wrapped = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column == 0 || column + 1 + length > width {
            if column > 0 {
                wrapped.push('\n');
            }
            wrapped.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += length;
    }
    wrapped.push('\n');
    wrapped
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn words_stay_whole() {
        assert_eq!(wrap("a bb ccc dddd", 2, 7), "  a bb\n  ccc\n  dddd\n");
        assert_eq!(wrap("much-too-long x", 2, 7), "  much-too-long\n  x\n");
        assert_eq!(wrap("", 2, 7), "\n");
    }
}
