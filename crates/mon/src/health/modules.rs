//! Modules of the manager's part that lack something on the monitor's host.
//!
//! Authority: `PyModuleRegistry::get_health_checks` (16.2).

use super::{Health, Severity};
use crate::Mon;

impl Mon {
    pub(super) fn check_modules(&self, health: &mut Health) {
        if let Some(why) = self.rbd_support.failed_dependency() {
            let text = format!("Module 'rbd_support' has failed dependency: {why}");
            health.add("MGR_MODULE_DEPENDENCY", Severity::Warn, text.clone(), 1, vec![text]);
        }
    }
}
