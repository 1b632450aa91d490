//! The kinds of faults.

/// A kind of fault. A run is conclusive only if every kind that the machine supports has occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    KillApi,
    KillWorker,
    KillScheduler,
    KillGateway,
    StopApi,
    StopWorker,
    StopScheduler,
    StopGateway,
    RedisFlush,
    RedisRestart,
    RedisCut,
    RedisDelay,
    PostgresRestart,
    PostgresConnections,
    PostgresFull,
    PostgresCut,
    PostgresDelay,
    GatewayCut,
    GatewayLose,
    GatewayDelay,
    GatewayFail,
    GatewayDrip,
    MockLose,
    MockDelay,
    MockRefuse,
    ClockSlight,
    ClockSeconds,
    ClockHours,
    ClockMonths,
    ClockRestart,
    GatewayRefuse,
    GatewayTooManyRequests,
    MockOutage,
    RotateKeys,
    MoveAccount,
}

use Fault::{
    ClockHours, ClockMonths, ClockRestart, ClockSeconds, ClockSlight, GatewayCut, GatewayDelay, GatewayDrip,
    GatewayFail, GatewayLose, GatewayRefuse, GatewayTooManyRequests, KillApi, KillGateway, KillScheduler, KillWorker,
    MockDelay, MockLose, MockOutage, MockRefuse, MoveAccount, PostgresConnections, PostgresCut, PostgresDelay,
    PostgresFull, PostgresRestart, RedisCut, RedisDelay, RedisFlush, RedisRestart, RotateKeys, StopApi, StopGateway,
    StopScheduler, StopWorker,
};

impl Fault {
    /// All kinds with their names in the report.
    pub(super) const ALL: [(Self, &'static str); 35] = [
        (KillApi, "api killed (-9)"),
        (KillWorker, "worker killed (-9)"),
        (KillScheduler, "scheduler killed (-9)"),
        (KillGateway, "gateway killed (-9)"),
        (StopApi, "api stopped beyond the lease"),
        (StopWorker, "worker stopped beyond the lease"),
        (StopScheduler, "scheduler stopped beyond the lease"),
        (StopGateway, "gateway stopped beyond the lease"),
        (RedisFlush, "Redis FLUSHALL"),
        (RedisRestart, "Redis killed and restarted empty"),
        (RedisCut, "connections to Redis cut"),
        (RedisDelay, "responses of Redis delayed"),
        (PostgresRestart, "Postgres killed and restarted"),
        (PostgresConnections, "Postgres out of connections"),
        (PostgresFull, "disk of Postgres full"),
        (PostgresCut, "connections to Postgres cut"),
        (PostgresDelay, "responses of Postgres delayed"),
        (GatewayCut, "connections to the gateway cut"),
        (GatewayLose, "responses of the gateway lost"),
        (GatewayDelay, "responses of the gateway beyond the time-out"),
        (GatewayFail, "5xx in place of the gateway's response"),
        (GatewayDrip, "responses of the gateway byte by byte"),
        (MockLose, "responses of the mock lost"),
        (MockDelay, "mock slower than the time-out"),
        (MockRefuse, "requests refused by the mock"),
        (ClockSlight, "clock of a process off by less than 2 s"),
        (ClockSeconds, "clock of a process off by seconds"),
        (ClockHours, "clock of a process off by hours"),
        (ClockMonths, "clock of a process off by months"),
        (ClockRestart, "process restarted with a wrong clock"),
        (GatewayRefuse, "outage: gateway refuses connections"),
        (GatewayTooManyRequests, "outage: gateway responds with 429"),
        (MockOutage, "outage: mock refuses everything"),
        (RotateKeys, "keys of a gateway account rotated"),
        (MoveAccount, "account moved to another provider"),
    ];

    /// Faults that previous releases do not withstand.
    pub(super) const NEWLY_SUPPORTED: [Self; 10] = [
        ClockSlight,
        ClockSeconds,
        ClockHours,
        ClockMonths,
        ClockRestart,
        GatewayRefuse,
        GatewayTooManyRequests,
        MockOutage,
        RotateKeys,
        MoveAccount,
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(fault, _)| *fault == self).map_or("", |(_, name)| name)
    }

    /// Whether the fault sets the clock of a process wrong.
    pub(super) fn sets_clock(self) -> bool {
        [ClockSlight, ClockSeconds, ClockHours, ClockMonths, ClockRestart].contains(&self)
    }

    /// Whether the fault may cause a 500: the database is unavailable, or a stopped process holds locks in it.
    pub(super) fn explains_a_500(self) -> bool {
        let of = [PostgresRestart, PostgresConnections, PostgresFull, PostgresCut, PostgresDelay];
        of.contains(&self) || [StopApi, StopWorker, StopScheduler, StopGateway].contains(&self)
    }
}
