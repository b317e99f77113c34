//! A page in Prometheus' text format: families of samples, each with its type.

use std::fmt::Write;

/// What kind of number a family has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// May rise and fall.
    Gauge,
    /// Only rises, until the daemon that counts restarts.
    Counter,
    /// Facts in labels, and flags.
    Untyped,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Untyped => "untyped",
        }
    }
}

/// A page of families in Prometheus' text format.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
    name: String,
}

impl Page {
    /// Begins a family. Names have the prefix that Ceph's have.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        self.name = format!("ceph_{name}");
        // Writing to a string cannot fail.
        let _ = write!(self.text, "\n# HELP {0} {help}\n# TYPE {0} {1}", self.name, kind.name());
    }

    /// A sample of the family that was begun last.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.text.push('\n');
        self.text.push_str(&self.name);
        if !labels.is_empty() {
            let labels: Vec<String> =
                labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escaped(text))).collect();
            let _ = write!(self.text, "{{{}}}", labels.join(","));
        }
        let _ = write!(self.text, " {value:?}");
    }

    /// A family of one sample without labels.
    pub(super) fn single(&mut self, name: &str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    pub(super) fn end(mut self) -> String {
        self.text.push('\n');
        self.text
    }
}

/// A label's text as the format wants it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::{Kind, Page};

    #[test]
    fn samples_stand_below_their_family() {
        let mut page = Page::default();
        page.single("health_status", Kind::Untyped, "state", 1.0);
        page.family("osd_up", Kind::Gauge, "up");
        page.sample(&[("ceph_daemon", "osd.0"), ("note", "a\\\"b\n")], 0.5);
        let expected = "\n# HELP ceph_health_status state\n# TYPE ceph_health_status untyped\nceph_health_status \
                        1.0\n# HELP ceph_osd_up up\n# TYPE ceph_osd_up \
                        gauge\nceph_osd_up{ceph_daemon=\"osd.0\",note=\"a\\\\\\\"b\\n\"} 0.5\n";
        assert_eq!(page.end(), expected);
    }
}
