//! `ceph tell osd.N …`: commands to this OSD alone.

use messages::{MCommand, MCommandReply};
use types::Errno;

use crate::{ConnId, Effect, Osd, osd::Cx};

/// Name, arguments in Ceph's signature form, help, permission.
const COMMANDS: &[(&str, &str, &str, &str)] = &[
    ("get_command_descriptions", "", "list available commands", "r"),
    ("version", "", "report version of OSD", "r"),
    ("config show", "", "dump current configuration", "r"),
    ("config get", r#",{"name":"var","type":"CephString"}"#, "get a setting", "r"),
    ("perf dump", "", "dump counters", "r"),
    ("status", "", "high-level status of the OSD", "r"),
];

/// What this OSD calls itself: Ceph's form, so that clients read a version.
const VERSION: &str = concat!("ceph version 16.2.15-loligo-", env!("CARGO_PKG_VERSION"), " pacific (stable)");

impl Osd {
    pub(crate) fn on_tell(&mut self, conn: ConnId, tid: u64, command: &MCommand, cx: &mut Cx<'_>) {
        let may = self.sessions.get(&conn).is_some_and(|s| s.peer.caps.allows_all());
        let (result, status, output) = if may {
            let text = command.cmd.first().map_or("", String::as_str);
            match self.tell(&prefix(text), &argument(text, "var")) {
                Ok(output) => (0, String::new(), output),
                Err(status) => (Errno::EINVAL.negated(), status, String::new()),
            }
        } else {
            (Errno::EACCES.negated(), "access denied".to_owned(), String::new())
        };
        let reply = MCommandReply { result, status, output: output.into() };
        cx.effects.push(Effect::Send(conn, tid, reply.into()));
    }

    fn tell(&self, prefix: &str, variable: &str) -> Result<String, String> {
        match prefix {
            "get_command_descriptions" => Ok(descriptions()),
            "version" => Ok(format!(
                "{{\"version\":\"{VERSION}\",\"release\":\"pacific\",\"release_type\":\"stable\"}}\n"
            )),
            "config show" => {
                Ok(format!("{{\"fsid\":\"{}\",\"osd_max_object_size\":\"134217728\"}}\n", self.fsid()))
            }
            "config get" if variable == "fsid" => Ok(format!("{{\"fsid\":\"{}\"}}\n", self.fsid())),
            "config get" => Err(format!("error getting '{variable}': (2) No such file or directory")),
            "perf dump" => Ok(format!(
                "{{\"osd\":{{\"numpg\":{},\"numpg_primary\":{},\"heartbeat_to_peers\":{},\"map_epoch\":{}}}}}\n",
                self.pg_ids().count(),
                self.primary_pg_count(),
                self.heartbeat.peers().count(),
                self.map.epoch,
            )),
            "status" => Ok(format!(
                "{{\"cluster_fsid\":\"{}\",\"whoami\":{},\"state\":\"active\",\"oldest_map\":{},\"newest_map\":{},\"num_pgs\":{}}}\n",
                self.fsid(),
                self.config.whoami,
                self.maps.oldest,
                self.maps.newest,
                self.pg_ids().count(),
            )),
            _ => Err("command not known".to_owned()),
        }
    }

    fn fsid(&self) -> String {
        let hex: String = self.config.fsid.iter().map(|b| format!("{b:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

fn descriptions() -> String {
    let rows = COMMANDS.iter().enumerate().map(|(index, (name, arguments, help, permission))| {
        let words: Vec<String> = name.split(' ').map(|w| format!("\"{w}\"")).collect();
        format!(
            "\"cmd{index:03}\":{{\"sig\":[{}{arguments}],\"help\":\"{help}\",\"module\":\"osd\",\"perm\":\"{permission}\",\"flags\":0}}",
            words.join(",")
        )
    });
    format!("{{{}}}", rows.collect::<Vec<_>>().join(","))
}

/// The value of a string field of a flat JSON document; clients send nothing deeper.
fn argument(json: &str, name: &str) -> String {
    let mut parts = json.split('"').skip_while(|part| *part != name);
    parts.nth(2).unwrap_or_default().to_owned()
}

fn prefix(json: &str) -> String {
    argument(json, "prefix")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_found() {
        let json = r#"{"prefix": "config get", "var": "fsid"}"#;
        assert_eq!((prefix(json).as_str(), argument(json, "var").as_str()), ("config get", "fsid"));
        assert_eq!(argument("{}", "var"), "");
    }
}
