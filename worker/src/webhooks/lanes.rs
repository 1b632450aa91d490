//! Limits how many attempts each endpoint may have in flight in this process, so that no endpoint starves the others.
//!
//! Each endpoint has a lane with a window, like a TCP connection: it starts at one, grows by one with each fast success
//! and is halved by each failure. A lane whose last attempt was slow or timed out is suspect and takes its slots from a
//! small separate pool. Endpoints that hang or are slow, however many, therefore cannot occupy the slots of endpoints
//! that respond.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use foundation::id::WebhookEndpointId;

/// Attempts in flight in one process.
pub(super) const SLOTS: usize = 1_024;
/// Attempts in flight to endpoints whose last attempt was slow or timed out.
pub(super) const SUSPECT_SLOTS: usize = 64;
/// Attempts in flight to one endpoint.
pub(super) const MAX_WINDOW: usize = 64;
/// At this limit idle lanes are removed and start over. While none is idle, further endpoints are rejected: the
/// scheduler's sweep wakes them again.
const MAX_LANES: usize = 10_000;

#[derive(Debug)]
struct Lane {
    window: usize,
    suspect: bool,
    /// Slots held from each pool: attempts claimed and not yet recorded, and the capacity reserved by a running claim.
    held: usize,
    held_suspect: usize,
    /// Deliveries may be due that the running claim has not seen.
    woken: bool,
    /// The endpoint is in one of the queues of [`Lanes`].
    queued: bool,
    claiming: bool,
}

impl Lane {
    const NEW: Self =
        Self { window: 1, suspect: false, held: 0, held_suspect: 0, woken: false, queued: false, claiming: false };

    const fn in_flight(&self) -> usize {
        self.held + self.held_suspect
    }

    /// How many more deliveries its window allows it to claim.
    const fn capacity(&self) -> usize {
        if self.claiming { 0 } else { self.window.saturating_sub(self.in_flight()) }
    }

    const fn slot(&self) -> Slot {
        if self.suspect { Slot::Suspect } else { Slot::Common }
    }

    const fn idle(&self) -> bool {
        self.in_flight() == 0 && !self.woken && !self.claiming
    }
}

/// The result of an attempt as far as its lane is concerned: what matters is how long it held its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptResult {
    /// 2xx, below [`Self::FAST`].
    Fast,
    /// 2xx, below [`Self::SLOW`].
    Moderate,
    /// Refused, reset or not 2xx, below [`Self::SLOW`].
    Failed,
    /// Success or failure, from [`Self::SLOW`] on.
    Slow,
    TimedOut,
}

impl AttemptResult {
    const SLOW: Duration = Duration::from_secs(3);
    /// A faster success widens the window.
    const FAST: Duration = Duration::from_secs(1);

    pub(super) fn of(succeeded: bool, timed_out: bool, took: Duration) -> Self {
        if timed_out {
            Self::TimedOut
        } else if took >= Self::SLOW {
            Self::Slow
        } else if !succeeded {
            Self::Failed
        } else if took < Self::FAST {
            Self::Fast
        } else {
            Self::Moderate
        }
    }
}

/// The pool that an attempt's slot belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Common,
    Suspect,
}

/// How many deliveries to claim for an endpoint, and from which pool their slots come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClaimRequest {
    pub(super) endpoint: WebhookEndpointId,
    pub(super) count: usize,
    pub(super) slot: Slot,
}

#[derive(Debug)]
struct SlotPool {
    free: usize,
    /// Lanes that wait for a free slot, longest waiting first.
    starved: VecDeque<WebhookEndpointId>,
}

/// All lanes of this process. Except for the removal of idle lanes, no call's cost depends on the number of lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: HashMap<WebhookEndpointId, Lane>,
    common: SlotPool,
    suspect: SlotPool,
    /// Woken lanes with capacity.
    ready: VecDeque<WebhookEndpointId>,
    /// Endpoints rejected since the last scan for idle lanes.
    rejected: usize,
}

impl Lanes {
    pub(super) fn new() -> Self {
        let pool = |free| SlotPool { free, starved: VecDeque::new() };
        Self {
            lanes: HashMap::new(),
            common: pool(SLOTS),
            suspect: pool(SUSPECT_SLOTS),
            ready: VecDeque::new(),
            rejected: 0,
        }
    }

    fn pool(&mut self, slot: Slot) -> &mut SlotPool {
        match slot {
            Slot::Common => &mut self.common,
            Slot::Suspect => &mut self.suspect,
        }
    }

    /// The endpoint may have due deliveries.
    pub(super) fn wake(&mut self, endpoint: WebhookEndpointId) {
        if self.lanes.len() >= MAX_LANES && !self.lanes.contains_key(&endpoint) {
            // The scan for idle lanes visits all of them, so only one in MAX_LANES rejected endpoints starts it.
            if self.rejected == 0 {
                self.lanes.retain(|_, lane| !lane.idle());
            }
            if self.lanes.len() >= MAX_LANES {
                self.rejected = (self.rejected + 1) % MAX_LANES;
                return;
            }
        }
        self.rejected = 0;
        self.lanes.entry(endpoint).or_insert(Lane::NEW).woken = true;
        self.enqueue_if_ready(endpoint);
    }

    fn enqueue_if_ready(&mut self, endpoint: WebhookEndpointId) {
        let Some(lane) = self.lanes.get_mut(&endpoint) else { return };
        if lane.woken && !lane.queued && lane.capacity() > 0 {
            lane.queued = true;
            self.ready.push_back(endpoint);
        }
    }

    /// What may be claimed now. The slots are held from here on; [`Self::claim_finished`] releases those that stay
    /// unused.
    pub(super) fn take_claim_requests(&mut self) -> Vec<ClaimRequest> {
        let mut requests = Vec::new();
        for pool in [&mut self.common, &mut self.suspect] {
            // Lanes that waited for a slot come before those that became ready later.
            if pool.free > 0 {
                pool.starved.extend(self.ready.drain(..));
                std::mem::swap(&mut pool.starved, &mut self.ready);
            }
        }
        while let Some(endpoint) = self.ready.pop_front() {
            let Some(lane) = self.lanes.get_mut(&endpoint) else { continue };
            let slot = lane.slot();
            let pool = match slot {
                Slot::Common => &mut self.common,
                Slot::Suspect => &mut self.suspect,
            };
            let count = lane.capacity().min(pool.free);
            if count == 0 {
                if lane.capacity() == 0 {
                    // Its own next result enqueues it again.
                    lane.queued = false;
                } else {
                    pool.starved.push_back(endpoint);
                }
                continue;
            }
            pool.free -= count;
            match slot {
                Slot::Common => lane.held += count,
                Slot::Suspect => lane.held_suspect += count,
            }
            lane.woken = false;
            lane.queued = false;
            lane.claiming = true;
            requests.push(ClaimRequest { endpoint, count, slot });
        }
        requests
    }

    /// A claim returned `claimed` deliveries. If it returned as many as requested, more may be due.
    pub(super) fn claim_finished(&mut self, request: ClaimRequest, claimed: usize) {
        if let Some(lane) = self.lanes.get_mut(&request.endpoint) {
            lane.claiming = false;
            lane.woken |= claimed >= request.count;
        }
        self.release(request.endpoint, request.slot, request.count.saturating_sub(claimed));
    }

    /// A claim failed: the deliveries are still due.
    pub(super) fn claim_failed(&mut self, request: ClaimRequest) {
        if let Some(lane) = self.lanes.get_mut(&request.endpoint) {
            lane.woken = true;
        }
        self.claim_finished(request, 0);
    }

    /// Adjusts the window to the result. The slot stays held until [`Self::attempt_recorded`], which bounds unrecorded
    /// attempts.
    pub(super) fn attempt_finished(&mut self, endpoint: WebhookEndpointId, result: AttemptResult) {
        let Some(lane) = self.lanes.get_mut(&endpoint) else { return };
        lane.window = match result {
            AttemptResult::Fast => (lane.window + 1).min(MAX_WINDOW),
            AttemptResult::Moderate => lane.window,
            AttemptResult::Failed | AttemptResult::Slow => (lane.window / 2).max(1),
            AttemptResult::TimedOut => 1,
        };
        lane.suspect = matches!(result, AttemptResult::Slow | AttemptResult::TimedOut);
    }

    /// An attempt is recorded, or was dropped.
    pub(super) fn attempt_recorded(&mut self, endpoint: WebhookEndpointId, slot: Slot) {
        self.release(endpoint, slot, 1);
    }

    fn release(&mut self, endpoint: WebhookEndpointId, slot: Slot, count: usize) {
        let Some(lane) = self.lanes.get_mut(&endpoint) else { return };
        match slot {
            Slot::Common => lane.held -= count,
            Slot::Suspect => lane.held_suspect -= count,
        }
        self.pool(slot).free += count;
        self.enqueue_if_ready(endpoint);
        // An idle lane in its initial state holds no information, so its memory is freed.
        if self.lanes.get(&endpoint).is_some_and(|lane| lane.idle() && !lane.suspect && lane.window == 1) {
            self.lanes.remove(&endpoint);
        }
    }

    /// Attempts in flight, and slots reserved by a running claim.
    pub(super) const fn in_flight(&self) -> usize {
        SLOTS - self.common.free + SUSPECT_SLOTS - self.suspect.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(number: u128) -> WebhookEndpointId {
        WebhookEndpointId::from_uuid(uuid::Uuid::from_u128(number))
    }

    fn claim(lanes: &mut Lanes, number: u128) -> Option<ClaimRequest> {
        lanes.wake(endpoint(number));
        let requests = lanes.take_claim_requests();
        requests.into_iter().find(|request| request.endpoint == endpoint(number))
    }

    #[test]
    fn windows_grow_with_success_and_shrink_with_failure() {
        let mut lanes = Lanes::new();
        for width in [1, 2, 4, 8, 16, 32, 64, 64] {
            let request = claim(&mut lanes, 1).expect("a free lane");
            assert_eq!(request.count, width);
            lanes.claim_finished(request, width);
            for _ in 0..width {
                lanes.attempt_finished(endpoint(1), AttemptResult::Fast);
                lanes.attempt_recorded(endpoint(1), request.slot);
            }
        }
        lanes.attempt_finished(endpoint(1), AttemptResult::Failed);
        assert_eq!(claim(&mut lanes, 1).map(|request| request.count), Some(32));
    }

    #[test]
    fn unresponsive_endpoints_do_not_starve_responsive_ones() {
        let mut lanes = Lanes::new();
        // Each endpoint times out once; from then on they share the small pool.
        for number in 0..500 {
            let request = claim(&mut lanes, number).expect("a slot for each");
            assert_eq!((request.count, request.slot), (1, Slot::Common));
            lanes.claim_finished(request, 1);
        }
        for number in 0..500 {
            lanes.attempt_finished(endpoint(number), AttemptResult::TimedOut);
            lanes.attempt_recorded(endpoint(number), Slot::Common);
        }
        assert_eq!(lanes.in_flight(), 0);
        (0..500).for_each(|number| lanes.wake(endpoint(number)));
        let requests = lanes.take_claim_requests();
        assert_eq!(requests.len(), SUSPECT_SLOTS);
        assert_eq!(claim(&mut lanes, 1_000).map(|request| request.slot), Some(Slot::Common));
        // The first endpoint that had to wait gets the next free slot.
        lanes.claim_finished(requests[0], 0);
        let next = lanes.take_claim_requests();
        assert_eq!(next.iter().map(|request| request.endpoint).collect::<Vec<_>>(), [endpoint(SUSPECT_SLOTS as u128)]);
    }

    #[test]
    fn attempts_are_classified_by_how_long_they_hold_a_slot() {
        let [short, long] = [100, 14_000].map(Duration::from_millis);
        assert_eq!(AttemptResult::of(true, false, short), AttemptResult::Fast);
        assert_eq!(
            AttemptResult::of(true, false, long),
            AttemptResult::Slow,
            "a slow success holds its slot as long as a failure"
        );
        assert_eq!(AttemptResult::of(false, false, short), AttemptResult::Failed);
        assert_eq!(AttemptResult::of(false, true, long), AttemptResult::TimedOut);
        let mut lanes = Lanes::new();
        let request = claim(&mut lanes, 1).expect("free");
        lanes.claim_finished(request, 1);
        for (result, slot) in [
            (AttemptResult::Slow, Slot::Suspect),
            (AttemptResult::Failed, Slot::Common),
            (AttemptResult::TimedOut, Slot::Suspect),
            (AttemptResult::Fast, Slot::Common),
        ] {
            lanes.attempt_finished(endpoint(1), result);
            assert_eq!(lanes.lanes[&endpoint(1)].slot(), slot, "{result:?}");
        }
    }

    #[test]
    fn due_deliveries_are_claimed_after_a_full_window_or_a_failed_claim() {
        let mut lanes = Lanes::new();
        let first = claim(&mut lanes, 1).expect("free");
        assert_eq!(claim(&mut lanes, 1), None, "one claim at a time");
        lanes.claim_finished(first, 1);
        assert!(lanes.take_claim_requests().is_empty(), "the window is full");
        lanes.attempt_finished(endpoint(1), AttemptResult::Fast);
        lanes.attempt_recorded(endpoint(1), first.slot);
        let second = lanes.take_claim_requests();
        assert_eq!(second.iter().map(|request| request.count).collect::<Vec<_>>(), [2]);
        lanes.claim_failed(second[0]);
        assert_eq!(lanes.take_claim_requests().len(), 1, "a failed claim is repeated");
    }

    #[test]
    fn unused_slots_and_lanes_are_released() {
        let mut lanes = Lanes::new();
        for number in 0..100 {
            let request = claim(&mut lanes, number).expect("free");
            lanes.claim_finished(request, 0);
        }
        assert_eq!(lanes.in_flight(), 0);
        assert!(lanes.lanes.is_empty());
        assert!(lanes.take_claim_requests().is_empty());
    }
}
