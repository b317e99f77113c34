//! The error numbers that Ceph clients understand (Linux values).

use std::fmt;

/// A positive Linux errno; on the wire it travels negated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        #[allow(missing_docs, reason = "the standard names say it")]
        impl Errno { $(pub const $name: Errno = Errno($value);)* }
        impl Errno {
            /// The symbol, `ENOENT`.
            pub fn name(self) -> &'static str {
                match self.0 { $($value => stringify!($name),)* _ => "EUNKNOWN" }
            }
            /// What `strerror` says.
            pub fn text(self) -> &'static str {
                match self.0 { $($value => $text,)* _ => "Unknown error" }
            }
        }
    };
}

errnos! {
    EPERM = 1, "Operation not permitted";
    ENOENT = 2, "No such file or directory";
    EIO = 5, "Input/output error";
    ENXIO = 6, "No such device or address";
    E2BIG = 7, "Argument list too long";
    ENOEXEC = 8, "Exec format error";
    EAGAIN = 11, "Resource temporarily unavailable";
    ENOMEM = 12, "Cannot allocate memory";
    EACCES = 13, "Permission denied";
    EBUSY = 16, "Device or resource busy";
    EEXIST = 17, "File exists";
    EXDEV = 18, "Invalid cross-device link";
    ENOTDIR = 20, "Not a directory";
    EINVAL = 22, "Invalid argument";
    ENOTTY = 25, "Inappropriate ioctl for device";
    EFBIG = 27, "File too large";
    ENOSPC = 28, "No space left on device";
    EROFS = 30, "Read-only file system";
    EDOM = 33, "Numerical argument out of domain";
    ERANGE = 34, "Numerical result out of range";
    ENAMETOOLONG = 36, "File name too long";
    ENOTEMPTY = 39, "Directory not empty";
    ELOOP = 40, "Too many levels of symbolic links";
    ENOMSG = 42, "No message of desired type";
    ENODATA = 61, "No data available";
    EOVERFLOW = 75, "Value too large for defined data type";
    EBADMSG = 74, "Bad message";
    EUSERS = 87, "Too many users";
    EMSGSIZE = 90, "Message too long";
    ERESTART = 85, "Interrupted system call should be restarted";
    EILSEQ = 84, "Invalid or incomplete multibyte or wide character";
    EBADF = 9, "Bad file descriptor";
    EDQUOT = 122, "Disk quota exceeded";
    EOPNOTSUPP = 95, "Operation not supported";
    ENOLINK = 67, "Link has been severed";
    EPROTO = 71, "Protocol error";
    ENOTCONN = 107, "Transport endpoint is not connected";
    ESHUTDOWN = 108, "Cannot send after transport endpoint shutdown";
    ETIMEDOUT = 110, "Connection timed out";
    EALREADY = 114, "Operation already in progress";
    ESTALE = 116, "Stale file handle";
    ECANCELED = 125, "Operation canceled";
    EUCLEAN = 117, "Structure needs cleaning";
}

impl Errno {
    /// `EBLOCKLISTED`, which Ceph spells as ESHUTDOWN.
    pub const EBLOCKLISTED: Errno = Errno::ESHUTDOWN;

    /// `EOLDSNAPC`: the writer does not know the newest snapshots; spelled as ERESTART.
    pub const EOLDSNAPC: Errno = Errno::ERESTART;

    /// What a negative result says, whatever number another OSD, or a method, made it.
    pub fn of_result(result: i32) -> Errno {
        Errno(result.saturating_neg())
    }

    /// The value as results carry it: negative.
    pub fn negated(self) -> i32 {
        -self.0
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_of_another_says_something() {
        assert_eq!(Errno::of_result(Errno::ENOENT.negated()), Errno::ENOENT);
        assert_eq!(Errno::of_result(i32::MIN).negated(), -i32::MAX);
    }
}
