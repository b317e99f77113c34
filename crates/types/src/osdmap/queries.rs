//! What daemons ask of a map: who is up, who is in, where they listen, whom to refuse.

use std::net::SocketAddr;

use super::{
    MapFlags, OsdInfo, OsdMap, OsdState, OsdXInfo, PRIMARY_AFFINITY_DEFAULT, PgPool, PoolFlags, WEIGHT_IN,
};
use crate::{AddrType, EntityAddr, EntityAddrVec, Epoch, OsdId, PgId, PoolId};

impl OsdMap {
    fn at(&self, osd: OsdId) -> Option<usize> {
        usize::try_from(osd.0).ok().filter(|at| *at < self.osd_state.len())
    }

    /// The state bits of an OSD, none for an id out of range.
    pub fn state(&self, osd: OsdId) -> OsdState {
        self.at(osd).map_or(OsdState::default(), |at| self.osd_state[at])
    }

    /// The flags of [`OsdState::GROUP`] that hold for an OSD: its own, those of the nodes above it, those of its device
    /// class.
    pub fn group_flags(&self, osd: OsdId) -> OsdState {
        let mut flags = OsdState(self.state(osd).0 & OsdState::GROUP.0);
        let crush = self.crush.map();
        if !self.crush_node_flags.is_empty() {
            let mut at = Some(osd.0);
            while let Some(id) = at {
                flags |= self.crush_node_flags.get(&id).copied().unwrap_or_default();
                at = crush.parent_of(id);
            }
        }
        let class = crush.classes.get(&osd.0).and_then(|class| self.device_class_flags.get(class));
        flags | class.copied().unwrap_or_default()
    }

    /// True when the id is in use.
    pub fn exists(&self, osd: OsdId) -> bool {
        self.state(osd).has(OsdState::EXISTS)
    }

    /// True when the OSD exists and runs.
    pub fn is_up(&self, osd: OsdId) -> bool {
        self.state(osd).has(OsdState::EXISTS | OsdState::UP)
    }

    /// True when it does not exist or does not run.
    pub fn is_down(&self, osd: OsdId) -> bool {
        !self.is_up(osd)
    }

    /// True when the OSD exists and has a weight above zero.
    pub fn is_in(&self, osd: OsdId) -> bool {
        self.exists(osd) && self.weight(osd) != 0
    }

    /// True when it does not exist or has weight zero.
    pub fn is_out(&self, osd: OsdId) -> bool {
        !self.is_in(osd)
    }

    /// The OSD's reweight, 0 (out) to [`WEIGHT_IN`]; 0 for an id out of range.
    pub fn weight(&self, osd: OsdId) -> u32 {
        self.at(osd).map_or(0, |at| self.osd_weight[at])
    }

    /// The reweight as a fraction, 0.0 to 1.0.
    pub fn weight_fraction(&self, osd: OsdId) -> f32 {
        self.weight(osd) as f32 / WEIGHT_IN as f32
    }

    /// The OSD's primary affinity, 0 to [`PRIMARY_AFFINITY_DEFAULT`].
    pub fn primary_affinity(&self, osd: OsdId) -> u32 {
        let at = self.at(osd);
        at.and_then(|at| self.osd_primary_affinity.get(at)).copied().unwrap_or(PRIMARY_AFFINITY_DEFAULT)
    }

    /// Ids of the OSDs that exist.
    pub fn osds(&self) -> impl Iterator<Item = OsdId> + '_ {
        (0..self.max_osd).map(OsdId).filter(|osd| self.exists(*osd))
    }

    /// How many OSDs exist.
    pub fn num_osds(&self) -> usize {
        self.osds().count()
    }

    /// How many OSDs are up.
    pub fn num_up(&self) -> usize {
        self.osds().filter(|osd| self.is_up(*osd)).count()
    }

    /// How many OSDs are in.
    pub fn num_in(&self) -> usize {
        self.osds().filter(|osd| self.is_in(*osd)).count()
    }

    /// Where clients reach an OSD; none for an id out of range, empty for one that never was up.
    pub fn osd_addrs(&self, osd: OsdId) -> Option<&EntityAddrVec> {
        self.at(osd).map(|at| &self.osd_addrs[at])
    }

    /// Where other OSDs reach it.
    pub fn osd_cluster_addrs(&self, osd: OsdId) -> Option<&EntityAddrVec> {
        self.at(osd).map(|at| &self.cluster_addrs[at])
    }

    /// The epochs of an OSD's life; all zero for an id out of range.
    pub fn info(&self, osd: OsdId) -> OsdInfo {
        self.at(osd).map_or(OsdInfo::default(), |at| self.osd_info[at])
    }

    /// How reliable the OSD has been; defaults for one that never was.
    pub fn xinfo(&self, osd: OsdId) -> OsdXInfo {
        self.at(osd).map_or(OsdXInfo::default(), |at| self.osd_xinfo[at])
    }

    /// The epoch that marked the OSD up last.
    pub fn up_from(&self, osd: OsdId) -> Epoch {
        self.info(osd).up_from
    }

    /// The last epoch in which the OSD is known to have been alive.
    pub fn up_thru(&self, osd: OsdId) -> Epoch {
        self.info(osd).up_thru
    }

    /// `is_blocklisted`: true when this incarnation at `addr`, its whole IP address, or its network is refused.
    pub fn is_blocklisted(&self, addr: &EntityAddr) -> bool {
        if self.range_blocklist.contains(addr) {
            return true;
        }
        if self.blocklist.is_empty() {
            return false;
        }
        let any = EntityAddr { kind: AddrType::ANY, ..*addr };
        let whole_ip = addr.socket.map(|socket| EntityAddr {
            kind: AddrType::ANY,
            nonce: 0,
            socket: Some(SocketAddr::new(socket.ip(), 0)),
        });
        self.blocklist.contains_key(&any) || whole_ip.is_some_and(|ip| self.blocklist.contains_key(&ip))
    }

    /// True when any of an entity's addresses is refused.
    pub fn is_any_blocklisted(&self, addrs: &EntityAddrVec) -> bool {
        addrs.0.iter().any(|addr| self.is_blocklisted(addr))
    }

    /// True when every flag of `flags` is set.
    pub fn has_flag(&self, flags: MapFlags) -> bool {
        self.flags.has(flags)
    }

    /// True when the cluster, or that pool, refuses writes for want of space or by its quota.
    pub fn is_full(&self, pool: PoolId) -> bool {
        let pool_is_full = |p: &PgPool| p.flags.has(PoolFlags::FULL);
        self.has_flag(MapFlags::FULL) || self.pools.get(&pool).is_some_and(pool_is_full)
    }

    /// The pool of that name.
    pub fn pool_by_name(&self, name: &str) -> Option<(PoolId, &PgPool)> {
        let (id, _) = self.pool_name.iter().find(|(_, n)| *n == name)?;
        Some((*id, self.pools.get(id)?))
    }

    /// The name of a pool.
    pub fn pool_name(&self, pool: PoolId) -> Option<&str> {
        self.pool_name.get(&pool).map(String::as_str)
    }

    /// True when the map has the PG.
    pub fn pg_exists(&self, pg: PgId) -> bool {
        self.pools.get(&pg.pool).is_some_and(|pool| pg.seed < pool.pg_num)
    }

    /// All PGs of a pool; none when there is no such pool.
    pub fn pgs_of(&self, pool: PoolId) -> impl Iterator<Item = PgId> + use<> {
        let pg_num = self.pools.get(&pool).map_or(0, |p| p.pg_num);
        (0..pg_num).map(move |seed| PgId::new(pool, seed))
    }

    /// All PGs of all pools.
    pub fn pgs(&self) -> impl Iterator<Item = PgId> + '_ {
        self.pools.keys().flat_map(|pool| self.pgs_of(*pool))
    }
}
