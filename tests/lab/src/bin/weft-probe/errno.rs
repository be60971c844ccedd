//! Symbolic names of the errors that sockets give.

use std::io::{self, ErrorKind};

use rustix::io::Errno;

/// The peer closed in an orderly way.
pub(crate) const EOF: &str = "EOF";
/// No answer in the time given (not the kernel's `ETIMEDOUT`).
pub(crate) const TIMEOUT: &str = "TIMEOUT";

const NAMES: &[(Errno, &str)] = &[
    (Errno::ACCESS, "EACCES"),
    (Errno::ADDRINUSE, "EADDRINUSE"),
    (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
    (Errno::AFNOSUPPORT, "EAFNOSUPPORT"),
    (Errno::AGAIN, "EAGAIN"),
    (Errno::CONNABORTED, "ECONNABORTED"),
    (Errno::CONNREFUSED, "ECONNREFUSED"),
    (Errno::CONNRESET, "ECONNRESET"),
    (Errno::HOSTDOWN, "EHOSTDOWN"),
    (Errno::HOSTUNREACH, "EHOSTUNREACH"),
    (Errno::INVAL, "EINVAL"),
    (Errno::MFILE, "EMFILE"),
    (Errno::NETDOWN, "ENETDOWN"),
    (Errno::NETUNREACH, "ENETUNREACH"),
    (Errno::NOBUFS, "ENOBUFS"),
    (Errno::NOMEM, "ENOMEM"),
    (Errno::NOTCONN, "ENOTCONN"),
    (Errno::PERM, "EPERM"),
    (Errno::PIPE, "EPIPE"),
    (Errno::TIMEDOUT, "ETIMEDOUT"),
];

/// The name of `error`; a number where there is no name in the list.
pub(crate) fn name(error: &io::Error) -> String {
    if let Some(code) = error.raw_os_error() {
        // A read or write with a timeout ends with EAGAIN.
        if code == Errno::AGAIN.raw_os_error() {
            return TIMEOUT.into();
        }
        let known = NAMES.iter().find(|(errno, _)| errno.raw_os_error() == code);
        return known.map_or_else(|| format!("errno {code}"), |(_, name)| (*name).into());
    }
    match error.kind() {
        ErrorKind::UnexpectedEof => EOF.into(),
        ErrorKind::TimedOut => TIMEOUT.into(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_system_errors_and_our_own() {
        assert_eq!(name(&Errno::CONNREFUSED.into()), "ECONNREFUSED");
        assert_eq!(name(&Errno::AGAIN.into()), TIMEOUT);
        assert_eq!(name(&ErrorKind::UnexpectedEof.into()), EOF);
        assert_eq!(name(&io::Error::from_raw_os_error(9999)), "errno 9999");
    }
}
