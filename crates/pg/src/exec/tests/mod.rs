//! Requests and what stock OSDs answer to them; results marked "observed" were seen from 16.2.15.

mod any_requests;
mod bench;
mod captured;
mod chunks;
mod copies;
mod copy_gets;
mod cursors;
mod damaged;
mod damaged_records;
mod data;
mod limits;
mod listing;
mod manifests;
mod model;
mod omap_ranges;
mod refusals;
mod snaps;
mod surface;
mod tmaps;
mod watches;
