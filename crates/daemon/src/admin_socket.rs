//! `ceph daemon NAME …`: a Unix socket at which a daemon takes commands from any process that may open the file. To the
//! daemon's machine each command is a session of its own, of a client that may do everything, with one message.
//!
//! Authority: `AdminSocket::do_accept` (16.2): a request is a JSON document that ends with a zero byte or with its
//! line, as collectd sends it; its answer a length of four bytes, highest first, and the text; the connection ends with
//! it.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Write},
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::Result;
use messages::{MCommand, MCommandReply, Message};
use osd::ConnId;
use reactor::Waker;
use types::{EntityName, Instant};

use crate::{ceph_conf::CephConf, clock};

/// How long a peer that has connected may take to send its command, or to read the answer.
const PEER_PATIENCE: Duration = Duration::from_secs(5);
/// How long a command may take (`ceph tell osd.N bench` is the longest).
const COMMAND_PATIENCE: Duration = Duration::from_secs(600);
/// Bytes of a request.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Pause after a connection that could not be accepted: the reason, such as no descriptor left, may last.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Between two warnings of that.
const FAILURES_LOGGED: Duration = Duration::from_secs(60);

/// A request, and where its answer goes.
struct Request {
    text: String,
    answer: mpsc::Sender<Vec<u8>>,
}

/// What the socket's thread and the daemon's share.
struct Shared {
    /// None once the socket closes: requests that come then would not be answered.
    requests: Mutex<Option<Vec<Request>>>,
}

impl Shared {
    fn new() -> Shared {
        Shared { requests: Mutex::new(Some(Vec::new())) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Request>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, request: Request) -> io::Result<()> {
        self.lock().as_mut().ok_or(io::ErrorKind::ConnectionAborted)?.push(request);
        Ok(())
    }
}

/// A daemon's admin socket, with the commands that are not answered yet.
pub(crate) struct AdminSocket {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Where answers go, by the id of the session.
    waiting: BTreeMap<u64, mpsc::Sender<Vec<u8>>>,
    next: u64,
}

impl AdminSocket {
    /// Listens where `admin socket` says, or where Ceph's daemons do; not if it is empty. `waker` wakes the daemon's
    /// reactor. Where a socket cannot be made, the daemon does without it.
    pub(crate) fn open(conf: &CephConf, who: &EntityName, waker: Waker) -> Result<Option<AdminSocket>> {
        let Some(path) = conf.get_or_default(who, "admin socket").filter(|path| !path.is_empty()) else {
            return Ok(None);
        };
        let path = PathBuf::from(path);
        let listener = match listen(&path) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "there is no admin socket (`ceph daemon`)");
                return Ok(None);
            }
        };
        let shared = Arc::new(Shared::new());
        let served = Arc::clone(&shared);
        let thread = reactor::spawn("admin_socket", None, move || {
            let mut failures = AcceptFailures::default();
            for stream in listener.incoming() {
                if served.lock().is_none() {
                    return;
                }
                match stream.map(|stream| serve(stream, &served, &waker)) {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::info!(%error, "a command at the admin socket has no answer"),
                    Err(error) => {
                        failures.log(&error, clock::now());
                        thread::sleep(ACCEPT_PAUSE);
                    }
                }
            }
        })?;
        let waiting = BTreeMap::new();
        Ok(Some(AdminSocket { path, shared, thread: Some(thread), waiting, next: ConnId::local(0).0 }))
    }

    /// True for a session of this socket.
    pub(crate) fn owns(id: u64) -> bool {
        ConnId(id).is_local()
    }

    /// What was asked since the last call: the session's id and the command. The session ends with its answer.
    pub(crate) fn take(&mut self) -> Vec<(u64, MCommand)> {
        let requests = self.shared.lock().as_mut().map(std::mem::take).unwrap_or_default();
        let mut begin = |Request { text, answer }| {
            let id = self.next;
            self.next += 1;
            self.waiting.insert(id, answer);
            (id, MCommand { cmd: vec![text], ..MCommand::default() })
        };
        requests.into_iter().map(&mut begin).collect()
    }

    /// Gives an answer. True if the session ends by it: messages that are none are nothing to it.
    pub(crate) fn answer(&mut self, id: u64, message: &Message) -> bool {
        let Message::MCommandReply(reply) = message else { return false };
        let Some(answer) = self.waiting.remove(&id) else { return false };
        // Nothing may wait for the answer any more.
        let _ = answer.send(render(reply));
        true
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        *self.shared.lock() = None;
        self.waiting.clear();
        // A connection wakes the thread, which then sees that it is to end.
        if UnixStream::connect(&self.path).is_ok()
            && let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the admin socket's thread ended with a panic");
        }
        // It may be gone already: its folder belongs to the operator.
        let _ = fs::remove_file(&self.path);
    }
}

/// Connections that could not be accepted.
#[derive(Default)]
struct AcceptFailures {
    /// No sooner is the next one a warning.
    warning_at: Instant,
}

impl AcceptFailures {
    fn log(&mut self, error: &io::Error, now: Instant) {
        if self.is_warning_due(now) {
            tracing::warn!(%error, "the admin socket accepts no connections; within a minute this is logged as debug");
        } else {
            tracing::debug!(%error, "the admin socket accepts no connections");
        }
    }

    fn is_warning_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.warning_at;
        if is_due {
            self.warning_at = now + FAILURES_LOGGED;
        }
        is_due
    }
}

/// A socket at that path, for its owner only, whatever the umask (which decides for the moment between `bind` and
/// `chmod`). A socket at which no process listens any more gives way; a file of any other kind is the operator's and
/// stays.
fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => return Err(io::ErrorKind::AlreadyExists.into()),
        Ok(_) if UnixStream::connect(path).is_ok() => return Err(io::ErrorKind::AddrInUse.into()),
        Ok(_) => fs::remove_file(path)?,
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn serve(mut stream: UnixStream, shared: &Shared, waker: &Waker) -> io::Result<()> {
    stream.set_read_timeout(Some(PEER_PATIENCE))?;
    stream.set_write_timeout(Some(PEER_PATIENCE))?;
    let text = read_request(&mut stream)?;
    let (answer, answered) = mpsc::channel();
    shared.push(Request { text, answer })?;
    waker.wake();
    let answer = answered.recv_timeout(COMMAND_PATIENCE).map_err(|_| io::ErrorKind::TimedOut)?;
    let length = u32::try_from(answer.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(&answer)
}

/// The document before the zero byte or the end of its line.
fn read_request(stream: &mut impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = stream.read(&mut chunk)?;
        match chunk[..count].iter().position(|byte| matches!(byte, 0 | b'\n')) {
            Some(end) => {
                bytes.extend_from_slice(&chunk[..end]);
                return String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into());
            }
            None if count == 0 || bytes.len() > REQUEST_BYTES_MAX => {
                return Err(io::ErrorKind::InvalidData.into());
            }
            None => bytes.extend_from_slice(&chunk[..count]),
        }
    }
}

/// An answer as the socket gives it: there is no room for an errno, so that a refusal is text.
fn render(reply: &MCommandReply) -> Vec<u8> {
    if reply.result >= 0 {
        return reply.output.to_vec();
    }
    let error = io::Error::from_raw_os_error(-reply.result).to_string();
    let text = error.split(" (os error").next().unwrap_or_default();
    format!("ERROR: ({}) {text}\n{}\n", -reply.result, reply.status).into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;

    #[test]
    fn a_request_ends_with_a_zero_byte_or_its_line() {
        let read = |bytes: &[u8]| read_request(&mut &bytes[..]).map_err(|error| error.kind());
        let text = r#"{ "prefix": "1" }"#;
        assert_eq!(read(format!("{text}\n").as_bytes()), Ok(text.to_owned()));
        assert_eq!(read(format!("{text}\0more").as_bytes()), Ok(text.to_owned()));
        assert_eq!(read(text.as_bytes()), Err(io::ErrorKind::InvalidData));
    }

    #[test]
    fn connections_that_cannot_be_accepted_are_warned_of_once_a_minute() {
        let mut failures = AcceptFailures::default();
        let tenths = 0..1_201;
        let due: Vec<u64> =
            tenths.filter(|tenth| failures.is_warning_due(Instant(tenth * 100_000_000))).collect();
        assert_eq!(due, [0, 600, 1_200]);
    }

    /// A folder that is not writable, a path that is too long, another cluster's daemon of that name at the usual
    /// place.
    #[test]
    fn a_socket_that_cannot_be_made_is_done_without() {
        let dir = std::env::temp_dir().join(format!("loligo-no-admin-socket-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let who = EntityName::parse("osd.0").unwrap();
        let open = |path: &Path| {
            let conf = format!("[osd]\nadmin socket = {}\n", path.display());
            AdminSocket::open(&CephConf::parse(&conf).unwrap(), &who, Waker::new().unwrap()).unwrap()
        };
        let (socket, file) = (dir.join("asok"), dir.join("file"));
        fs::write(&file, "").unwrap();
        let first = open(&socket);
        let found = [&socket, &file.join("asok"), Path::new("")].map(|path| open(path).is_some());
        assert_eq!((first.is_some(), found), (true, [false; 3]));
        drop(first);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_socket_is_its_owners_and_takes_no_other_files_place() {
        let dir = std::env::temp_dir().join(format!("loligo-admin-socket-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("osd.0.asok");
        let refused = || listen(&path).map(drop).map_err(|error| error.kind());
        let listener = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(refused(), Err(io::ErrorKind::AddrInUse));
        drop(listener);
        assert_eq!(refused(), Ok(()), "a socket of a process that ended");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "a keyring").unwrap();
        assert_eq!(refused(), Err(io::ErrorKind::AlreadyExists));
        assert_eq!(fs::read_to_string(&path).unwrap(), "a keyring");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_comes_while_the_socket_closes_is_not_waited_for() {
        let (mut client, served) = UnixStream::pair().unwrap();
        let shared = Shared::new();
        // Accepted already, it says what it wants once the socket has begun to close.
        *shared.lock() = None;
        client.write_all(b"{}\n").unwrap();
        let refused = serve(served, &shared, &Waker::new().unwrap()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionAborted);
    }

    /// Gives its bytes, and then the last of them for ever, in pieces of these sizes.
    struct Pieces<'a> {
        bytes: &'a [u8],
        sizes: std::iter::Cycle<std::slice::Iter<'a, usize>>,
        is_endless: bool,
        given: usize,
    }

    impl Read for Pieces<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let room = out.len().min(self.sizes.next().copied().unwrap_or(1));
            let mut count = room.min(self.bytes.len());
            out[..count].copy_from_slice(&self.bytes[..count]);
            self.bytes = &self.bytes[count..];
            if count == 0 && self.is_endless {
                out[..room].fill(b'x');
                count = room;
            }
            self.given += count;
            Ok(count)
        }
    }

    proptest! {
        #[test]
        fn requests_of_any_bytes_in_any_pieces_are_read_to_their_end_or_refused(
            parts in vec(prop_oneof![
                vec(any::<u8>(), 0..20),
                "[a-zé{}\": ]{0,30}".prop_map(String::into_bytes),
                select(vec![b"\n".to_vec(), b"\0".to_vec(), vec![b'x'; 5_000], vec![b'x'; REQUEST_BYTES_MAX]]),
            ], 0..6),
            sizes in vec(1usize..5_000, 1..5),
            is_endless: bool,
        ) {
            let bytes = parts.concat();
            let end = bytes.iter().position(|byte| matches!(byte, 0 | b'\n'));
            let mut pieces = Pieces { bytes: &bytes, sizes: sizes.iter().cycle(), is_endless, given: 0 };
            let read = read_request(&mut pieces).map_err(|error| error.kind());
            prop_assert!(pieces.given <= REQUEST_BYTES_MAX + 2 * 4_096, "{} bytes were taken", pieces.given);
            let text = end.and_then(|end| String::from_utf8(bytes[..end].to_vec()).ok());
            match (read, text) {
                (Ok(read), text) => prop_assert_eq!(Some(read), text),
                (Err(kind), None) => prop_assert_eq!(kind, io::ErrorKind::InvalidData),
                (Err(_), Some(text)) => prop_assert!(text.len() > REQUEST_BYTES_MAX),
            }
        }
    }
}
