//! Peers that break the rules, by mistake or on purpose: each gets an error or a closed connection, the daemons'
//! memory stays bounded, and stock clients are served meanwhile.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::cluster::Cluster;

/// What the daemons may grow by, whatever strangers do: caches and pools fill meanwhile.
const GROWTH_BYTES_MAX: u64 = 128 << 20;
/// More than a daemon lets be under way at a time, less than this process may have open.
const HALF_OPEN: usize = 700;
/// Handshakes end within ten seconds; a busy machine may take longer to notice.
const CLOSED_WITHIN: Duration = Duration::from_secs(30);

const BANNER: &[u8] = b"ceph v2\n\x10\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
const HELLO: u8 = 1;
const AUTH_REQUEST: u8 = 2;
const AUTH_BAD_METHOD: u8 = 3;
const AUTH_REPLY_MORE: u8 = 4;
const MESSAGE: u8 = 17;

#[test]
fn clients_without_the_right_key_are_told_so() {
    let c = Cluster::start();
    let other = c.sh("ceph-authtool --gen-print-key").out;
    let wrong = format!("--key {}", other.trim());
    for who in [wrong.clone(), format!("-n client.nobody {wrong}"), "--keyring /dev/null".to_owned()] {
        let ceph = c.run(&format!("ceph --connect-timeout 20 {who} -s"));
        assert!(ceph.code != 0 && ceph.err.contains("[errno 13] RADOS permission denied"), "{}", ceph.err);
        let rbd = c.run(&format!("rbd {who} --no-mon-config ls"));
        assert!(rbd.code != 0 && rbd.err.contains("couldn't connect to the cluster"), "{}", rbd.err);
    }
    // A key that was right until a moment ago.
    c.sh("ceph auth get-or-create client.x mon 'profile rbd' osd 'profile rbd' -o x.keyring");
    c.sh("rbd -n client.x --keyring x.keyring create --size 1M img");
    c.sh("ceph auth rm client.x");
    assert_ne!(c.run("rbd -n client.x --keyring x.keyring ls").code, 0);
    is_serving(&c);
}

#[test]
fn bytes_that_are_no_protocol_close_the_connection() {
    let c = Cluster::start();
    for (name, addr) in daemons(&c) {
        let before = rss_bytes(&c, name);
        for attack in attacks() {
            // More than once: what is leaked once is not seen.
            for _ in 0..50 {
                let mut peer = dial(&addr);
                // The daemon may close before all is said.
                let _ = peer.write_all(&attack);
                assert!(is_closed_within(&mut peer, CLOSED_WITHIN), "{name} keeps {:?}", &attack[..9]);
            }
        }
        // A client without a key is told so, then its connection is closed.
        let mut peer = dial(&addr);
        let asked = [&greeting()[..], &auth_request(&[0x5a; 100])].concat();
        peer.write_all(&asked).unwrap();
        let answer = read_until_closed(&mut peer);
        assert_eq!(tags(&answer), [HELLO, AUTH_BAD_METHOD], "{name}");
        assert_bounded(&c, name, before);
    }
    is_serving(&c);
}

#[test]
fn handshakes_that_stop_half_way_are_closed_and_keep_nobody_out() {
    let c = Cluster::start();
    for (name, addr) in daemons(&c) {
        let (before, files_before) = (rss_bytes(&c, name), open_files(&c, name));
        let mut stages = vec![Vec::new(), BANNER[..5].to_vec(), BANNER.to_vec(), greeting()];
        stages.push([&greeting()[..], &preamble(AUTH_REQUEST, &[60_000]), &[0; 40_000]].concat());
        if name == "mon.a" {
            // The monitor asks for proof, which never comes.
            let asked = [&greeting()[..], &auth_request(&admin())].concat();
            let mut peer = dial(&addr);
            peer.write_all(&asked).unwrap();
            assert_eq!(tags(&read_frames(&mut peer, 2)), [HELLO, AUTH_REPLY_MORE]);
            stages.push(asked);
        }
        let mut peers: Vec<TcpStream> = Vec::new();
        for stage in stages.iter().cycle().take(HALF_OPEN) {
            let mut peer = dial(&addr);
            let _ = peer.write_all(stage);
            peers.push(peer);
        }
        let opened = Instant::now();
        is_serving(&c);
        assert_bounded(&c, name, before);
        for peer in &mut peers {
            let left = CLOSED_WITHIN.saturating_sub(opened.elapsed());
            assert!(is_closed_within(peer, left.max(Duration::from_millis(1))), "{name} waits for ever");
        }
        drop(peers);
        c.wait("end of the connections", Duration::from_secs(60), |c| {
            open_files(c, name) <= files_before + 20
        });
    }
    is_serving(&c);
}

#[test]
fn a_flood_of_connections_passes() {
    let c = Cluster::start();
    let daemons = daemons(&c);
    let before: Vec<u64> = daemons.iter().map(|(name, _)| rss_bytes(&c, name)).collect();
    let io = c.spawn("rados -p rbd bench 5 write -b 4096 -t 4");
    std::thread::scope(|scope| {
        for (_, addr) in &daemons {
            scope.spawn(move || {
                let mut noise = Noise(7);
                for round in 0..4_000 {
                    let mut peer = dial(addr);
                    let bytes = noise.bytes(round % 300);
                    let _ = peer.write_all(if round % 3 == 0 { BANNER } else { &bytes });
                }
            });
        }
    });
    assert!(io.ends_well(), "a client suffered\n{}", c.logs());
    for ((name, _), before) in daemons.iter().zip(before) {
        assert_bounded(&c, name, before);
    }
    is_serving(&c);
    c.wait_healthy();
}

/// First bytes of peers that nobody should talk to.
fn attacks() -> Vec<Vec<u8>> {
    let mut noise = Noise(1);
    let huge = u32::MAX;
    let after_hello = |bytes: &[u8]| [&greeting()[..], bytes].concat();
    let mut bad_crc = preamble(AUTH_REQUEST, &[10]);
    bad_crc[28] ^= 1;
    vec![
        // msgr1: banner and an address.
        [&b"ceph v027"[..], &[0; 272]].concat(),
        b"GET / HTTP/1.1\r\nHost: ceph\r\n\r\n".to_vec(),
        noise.bytes(64 << 10),
        // A banner whose payload is not 16 bytes.
        [&b"ceph v2\n\xff\xff"[..], &[0; 100]].concat(),
        // Segments of 4 GiB, at once and where a message is due.
        [BANNER, &preamble(HELLO, &[huge])].concat(),
        [BANNER, &preamble(MESSAGE, &[41, huge, huge, huge])].concat(),
        after_hello(&preamble(AUTH_REQUEST, &[huge])),
        after_hello(&preamble(MESSAGE, &[41, huge, huge, huge])),
        after_hello(&preamble(MESSAGE, &[41, 100, 0, 100])),
        after_hello(&bad_crc),
        // A payload whose strings and lists are longer than it.
        after_hello(&frame(AUTH_REQUEST, &[2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff])),
        after_hello(&auth_request(&[10, 8, 0, 0, 0, 0xff, 0xff, 0xff, 0xff])),
        // Out of order, or the server's part.
        after_hello(&frame(6, &[0; 20])),
        after_hello(&greeting()),
        [BANNER, &noise.bytes(200)].concat(),
        after_hello(&noise.bytes(200)),
    ]
}

fn daemons(c: &Cluster) -> [(&'static str, String); 2] {
    let addr = |json: &serde_json::Value| {
        let addrs = json["public_addrs"]["addrvec"].as_array().unwrap().clone();
        addrs.iter().find(|a| a["type"] == "v2").unwrap()["addr"].as_str().unwrap().to_owned()
    };
    let mon = addr(&c.json("ceph mon dump")["mons"][0]);
    [("mon.a", mon), ("osd.0", addr(&c.json("ceph osd dump")["osds"][0]))]
}

/// Fails unless a stock client is served, and soon.
fn is_serving(c: &Cluster) {
    let limit = "timeout 60";
    c.sh(&format!(
        "{limit} ceph -s; for n in 1 2 3 4 5 6 7 8; do echo $n > n; {limit} rados -p rbd put n$n n; done"
    ));
}

fn rss_bytes(c: &Cluster, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", c.pid(name))).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn assert_bounded(c: &Cluster, name: &str, before: u64) {
    let after = rss_bytes(c, name);
    assert!(after <= before + GROWTH_BYTES_MAX, "{name} grew from {before} to {after}");
}

fn open_files(c: &Cluster, name: &str) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", c.pid(name))).unwrap().count()
}

fn dial(addr: &str) -> TcpStream {
    TcpStream::connect(addr).unwrap()
}

fn is_closed_within(peer: &mut TcpStream, limit: Duration) -> bool {
    peer.set_read_timeout(Some(limit)).unwrap();
    let mut bytes = [0; 4096];
    loop {
        match peer.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

fn read_until_closed(peer: &mut TcpStream) -> Vec<u8> {
    peer.set_read_timeout(Some(CLOSED_WITHIN)).unwrap();
    let mut bytes = Vec::new();
    peer.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Reads until so many frames behind a banner have begun, or no more come.
fn read_frames(peer: &mut TcpStream, count: usize) -> Vec<u8> {
    peer.set_read_timeout(Some(CLOSED_WITHIN)).unwrap();
    let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
    while tags(&all).len() < count {
        match peer.read(&mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(more) => all.extend_from_slice(&bytes[..more]),
        }
    }
    all
}

/// The tags of the frames behind a banner, in crc mode.
fn tags(bytes: &[u8]) -> Vec<u8> {
    let mut tags = Vec::new();
    let mut at = BANNER.len();
    while let Some(preamble) = bytes.get(at..at + 32) {
        tags.push(preamble[0]);
        at += 32 + u32::from_le_bytes(preamble[2..6].try_into().unwrap()) as usize + 4;
    }
    tags
}

/// The crc of frames: Castagnoli, without a final inversion.
fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

fn preamble(tag: u8, segments: &[u32]) -> Vec<u8> {
    let mut out = vec![0; 28];
    (out[0], out[1]) = (tag, segments.len() as u8);
    for (index, length) in segments.iter().enumerate() {
        out[2 + index * 6..6 + index * 6].copy_from_slice(&length.to_le_bytes());
        out[6 + index * 6] = 8;
    }
    out.extend_from_slice(&crc32c(0, &out).to_le_bytes());
    out
}

fn frame(tag: u8, payload: &[u8]) -> Vec<u8> {
    let crc = crc32c(u32::MAX, payload).to_le_bytes();
    [&preamble(tag, &[payload.len() as u32])[..], payload, &crc].concat()
}

/// Banner and HELLO of a client, with a blank address.
fn greeting() -> Vec<u8> {
    let mut hello = vec![8, 1, 1, 1, 12, 0, 0, 0];
    hello.resize(20, 0);
    [BANNER, &frame(HELLO, &hello)].concat()
}

/// Cephx, crc mode only.
fn auth_request(payload: &[u8]) -> Vec<u8> {
    let mut request: Vec<u8> =
        [2u32, 1, 1, payload.len() as u32].iter().flat_map(|n| n.to_le_bytes()).collect();
    request.extend_from_slice(payload);
    frame(AUTH_REQUEST, &request)
}

/// What client.admin says first to a monitor: mode, name, no global id yet.
fn admin() -> Vec<u8> {
    let mut payload = vec![10, 8, 0, 0, 0, 5, 0, 0, 0];
    payload.extend_from_slice(b"admin\0\0\0\0\0\0\0\0");
    payload
}

/// Bytes without a meaning, the same in each run (xorshift).
struct Noise(u64);

impl Noise {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count)
            .map(|_| {
                self.0 ^= self.0 << 13;
                self.0 ^= self.0 >> 7;
                self.0 ^= self.0 << 17;
                self.0 as u8
            })
            .collect()
    }
}
