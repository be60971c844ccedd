//! Which regular expressions Envoy takes. One that it does not take costs it the whole route configuration.
//!
//! That is RE2's syntax (<https://github.com/google/re2/wiki/Syntax>) with characters of one byte, read here with another parser: where the
//! two differ, less is allowed.

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{
    AssertionKind, Ast, CaptureName, ClassSetBinaryOp, ClassSetItem, ClassUnicode,
    ClassUnicodeKind, Flag, Flags, FlagsItemKind, GroupKind, HexLiteralKind, Literal, LiteralKind,
    RepetitionKind, RepetitionRange, Visitor, visit,
};

/// Longer ones are refused by the Gateway API as well.
const MAX_PATTERN: usize = 4096;
/// RE2's own: what counted repetitions, nested ones multiplied, may come to.
const MAX_REPEATS: u32 = 1000;
/// Steps of the compiled expression, counted high. Envoy is started to take at least these
/// (`re2.max_program_size.error_level` of `l7-proxy/src/bootstrap.rs`).
const MAX_STEPS: usize = 10_000;

/// Why Envoy would not take `text`, if it would not.
pub(super) fn refusal(text: &str) -> Option<String> {
    check(text).err()
}

fn check(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.len() > MAX_PATTERN {
        return Err(format!("longer than {MAX_PATTERN} bytes"));
    }
    let parsed = Parser::new().parse(text);
    let parsed = parsed.map_err(|e| e.kind().to_string())?;
    visit(&parsed, Check::default())
}

struct Check {
    /// Of the counted repetitions around what is visited.
    repeats: Vec<u32>,
    steps: usize,
}

impl Default for Check {
    fn default() -> Self {
        Self {
            repeats: vec![1],
            steps: 0,
        }
    }
}

impl Check {
    fn repeated(&self) -> u32 {
        self.repeats.last().copied().unwrap_or(1)
    }

    fn count(&mut self, steps: usize) -> Result<(), String> {
        let times = usize::try_from(self.repeated()).unwrap_or(usize::MAX);
        self.steps = self.steps.saturating_add(steps.saturating_mul(times));
        if self.steps > MAX_STEPS {
            return Err(format!(
                "compiles to more than {MAX_STEPS} steps: repeat less"
            ));
        }
        Ok(())
    }

    fn repeat(&mut self, kind: &RepetitionKind, of: &Ast) -> Result<(), String> {
        if matches!(of, Ast::Repetition(_)) {
            return Err("repeats a repetition: put a group around it".to_owned());
        }
        let times = match kind {
            RepetitionKind::Range(RepetitionRange::Exactly(n) | RepetitionRange::AtLeast(n)) => *n,
            RepetitionKind::Range(RepetitionRange::Bounded(_, most)) => *most,
            _ => 1,
        };
        let repeats = self.repeated().saturating_mul(times.max(1));
        if repeats > MAX_REPEATS {
            return Err(format!(
                "repeats {repeats} times, more than {MAX_REPEATS} (repetitions in repetitions multiply)"
            ));
        }
        self.repeats.push(repeats);
        Ok(())
    }
}

impl Visitor for Check {
    type Output = ();
    type Err = String;

    fn finish(self) -> Result<(), String> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), String> {
        match ast {
            Ast::Empty(_) | Ast::Concat(_) => Ok(()),
            Ast::Alternation(one_of) => self.count(one_of.asts.len()),
            Ast::Flags(set) => flags(&set.flags),
            Ast::Literal(found) => {
                literal(found)?;
                // Each byte may be of either case.
                self.count(2 * found.c.len_utf8())
            }
            Ast::Dot(_) => self.count(2),
            Ast::Assertion(found) => {
                assertion(&found.kind)?;
                self.count(2)
            }
            Ast::ClassUnicode(found) => {
                class(found)?;
                self.count(64)
            }
            Ast::ClassPerl(_) => self.count(8),
            Ast::ClassBracketed(_) => self.count(2),
            Ast::Repetition(found) => {
                self.repeat(&found.op.kind, &found.ast)?;
                self.count(2)
            }
            Ast::Group(found) => {
                match &found.kind {
                    GroupKind::CaptureIndex(_) => {}
                    GroupKind::CaptureName { name, .. } => group_name(name)?,
                    GroupKind::NonCapturing(set) => flags(set)?,
                }
                self.count(2)
            }
        }
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), String> {
        if matches!(ast, Ast::Repetition(_)) {
            self.repeats.pop();
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), String> {
        match item {
            ClassSetItem::Empty(_) | ClassSetItem::Union(_) => Ok(()),
            ClassSetItem::Literal(found) => {
                literal(found)?;
                self.count(4)
            }
            ClassSetItem::Range(range) => {
                literal(&range.start)?;
                literal(&range.end)?;
                self.count(8)
            }
            ClassSetItem::Ascii(_) | ClassSetItem::Perl(_) => self.count(8),
            ClassSetItem::Unicode(found) => {
                class(found)?;
                self.count(64)
            }
            ClassSetItem::Bracketed(_) => {
                Err("has a class in a class: a bracket that stands for itself is \\[".to_owned())
            }
        }
    }

    fn visit_class_set_binary_op_pre(&mut self, _: &ClassSetBinaryOp) -> Result<(), String> {
        Err("combines classes (&&, --, ~~), which RE2 does not".to_owned())
    }
}

fn flags(set: &Flags) -> Result<(), String> {
    let unknown = set.items.iter().any(|item| {
        matches!(
            item.kind,
            FlagsItemKind::Flag(Flag::Unicode | Flag::CRLF | Flag::IgnoreWhitespace)
        )
    });
    match unknown {
        true => Err("has a flag other than i, m, s and U".to_owned()),
        false => Ok(()),
    }
}

fn literal(found: &Literal) -> Result<(), String> {
    let by_number = matches!(
        found.kind,
        LiteralKind::HexFixed(_) | LiteralKind::HexBrace(_)
    );
    let unicode = matches!(
        found.kind,
        LiteralKind::HexFixed(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong)
            | LiteralKind::HexBrace(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong)
    );
    if unicode || (by_number && u32::from(found.c) > 0xff) {
        return Err("has a character by a number other than \\x00 to \\xff".to_owned());
    }
    Ok(())
}

fn assertion(kind: &AssertionKind) -> Result<(), String> {
    match kind {
        AssertionKind::StartLine
        | AssertionKind::EndLine
        | AssertionKind::StartText
        | AssertionKind::EndText
        | AssertionKind::WordBoundary
        | AssertionKind::NotWordBoundary => Ok(()),
        _ => Err("has an assertion other than ^, $, \\A, \\z, \\b and \\B".to_owned()),
    }
}

fn class(found: &ClassUnicode) -> Result<(), String> {
    let known = match &found.kind {
        ClassUnicodeKind::OneLetter(letter) => "CLMNPSZ".contains(*letter),
        ClassUnicodeKind::Named(name) => CLASSES.contains(&name.as_str()),
        ClassUnicodeKind::NamedValue { .. } => false,
    };
    match known {
        true => Ok(()),
        false => Err(
            "has a class of characters other than Unicode's general categories by their short names, as \\p{Lu}"
                .to_owned(),
        ),
    }
}

/// General categories that Envoy knows.
const CLASSES: [&str; 36] = [
    "Any", "C", "Cc", "Cf", "Co", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N",
    "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So",
    "Z", "Zl", "Zp", "Zs",
];

fn group_name(name: &CaptureName) -> Result<(), String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    match name.name.bytes().all(plain) {
        true => Ok(()),
        false => Err("names a group with other than letters, digits and _".to_owned()),
    }
}

#[cfg(test)]
mod tests;
