//! Limits how many attempts each endpoint may have in flight in this process, so that none takes the slots of the others.
//!
//! Each endpoint has a window, like a TCP connection: its size is one at first, grows by one with each fast success and is
//! halved by each failure. An endpoint whose last attempt was slow or timed out takes its slots from a small separate pool.
//! Endpoints that hang or are slow, however many, therefore cannot occupy the slots of endpoints that respond. Those of one
//! account that respond until their windows are large, and then hang, occupy the account's quota at most.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use foundation::id::{AccountId, WebhookEndpointId};

/// Attempts in flight in one process.
pub(super) const SLOTS: usize = 1_024;
/// Attempts in flight to endpoints whose last attempt was slow or timed out.
pub(super) const SLOW_SLOTS: usize = 64;
/// Attempts in flight to one endpoint.
pub(super) const MAX_SIZE: usize = 64;
/// Common slots of an account's endpoints, beyond the first of each endpoint.
const ACCOUNT_QUOTA: usize = 128;
/// At this limit idle windows are removed and start again with one attempt. While none is idle, further endpoints are
/// rejected: the scheduler's sweep wakes them again.
const MAX_WINDOWS: usize = 10_000;

#[derive(Debug)]
struct EndpointWindow {
    /// Known from the first claimed delivery on. Until then the size is one, and the first slot needs no quota.
    account: Option<AccountId>,
    /// The most attempts in flight at once.
    size: usize,
    slow: bool,
    /// Slots held from each pool: attempts claimed and not yet recorded, and the capacity reserved by a running claim.
    held: usize,
    held_slow: usize,
    /// Deliveries may be due that the running claim has not seen.
    woken: bool,
    /// The endpoint is in one of the queues of [`EndpointWindows`].
    queued: bool,
    claiming: bool,
}

impl EndpointWindow {
    const NEW: Self = Self {
        account: None,
        size: 1,
        slow: false,
        held: 0,
        held_slow: 0,
        woken: false,
        queued: false,
        claiming: false,
    };

    const fn in_flight(&self) -> usize {
        self.held + self.held_slow
    }

    /// How many more deliveries it allows to claim.
    const fn capacity(&self) -> usize {
        if self.claiming { 0 } else { self.size.saturating_sub(self.in_flight()) }
    }

    /// The slots held of the account's quota.
    const fn beyond_first(&self) -> usize {
        self.held.saturating_sub(1)
    }

    const fn slot(&self) -> Slot {
        if self.slow { Slot::Slow } else { Slot::Common }
    }

    const fn idle(&self) -> bool {
        self.in_flight() == 0 && !self.woken && !self.claiming
    }
}

/// The result of an attempt, as far as the window is concerned: what matters is how long the attempt held its slot.
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
    Slow,
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
    /// Endpoints that wait for a free slot, longest waiting first.
    waiting: VecDeque<WebhookEndpointId>,
}

/// All windows of this process. Except for the removal of idle windows, no call's cost depends on the number of windows.
#[derive(Debug)]
pub(super) struct EndpointWindows {
    windows: HashMap<WebhookEndpointId, EndpointWindow>,
    /// The slots held of each account's quota, without accounts that hold none.
    quotas: HashMap<AccountId, usize>,
    common: SlotPool,
    slow: SlotPool,
    /// Endpoints woken, whose windows have capacity.
    ready: VecDeque<WebhookEndpointId>,
    /// Endpoints rejected since the last scan for idle windows.
    rejected: usize,
}

impl EndpointWindows {
    pub(super) fn new() -> Self {
        let pool = |free| SlotPool { free, waiting: VecDeque::new() };
        Self {
            windows: HashMap::new(),
            quotas: HashMap::new(),
            common: pool(SLOTS),
            slow: pool(SLOW_SLOTS),
            ready: VecDeque::new(),
            rejected: 0,
        }
    }

    fn pool(&mut self, slot: Slot) -> &mut SlotPool {
        match slot {
            Slot::Common => &mut self.common,
            Slot::Slow => &mut self.slow,
        }
    }

    /// The endpoint may have due deliveries.
    pub(super) fn wake(&mut self, endpoint: WebhookEndpointId) {
        if self.windows.len() >= MAX_WINDOWS && !self.windows.contains_key(&endpoint) {
            // The scan for idle windows visits all of them, so only one in MAX_WINDOWS rejected endpoints starts it.
            if self.rejected == 0 {
                self.windows.retain(|_, window| !window.idle());
            }
            if self.windows.len() >= MAX_WINDOWS {
                self.rejected = (self.rejected + 1) % MAX_WINDOWS;
                return;
            }
        }
        self.rejected = 0;
        self.windows.entry(endpoint).or_insert(EndpointWindow::NEW).woken = true;
        self.enqueue_if_ready(endpoint);
    }

    fn enqueue_if_ready(&mut self, endpoint: WebhookEndpointId) {
        let Some(window) = self.windows.get_mut(&endpoint) else { return };
        if window.woken && !window.queued && window.capacity() > 0 {
            window.queued = true;
            self.ready.push_back(endpoint);
        }
    }

    /// What may be claimed now. The slots are held from here on; [`Self::claim_finished`] releases those that stay
    /// unused.
    pub(super) fn take_claim_requests(&mut self) -> Vec<ClaimRequest> {
        let mut requests = Vec::new();
        for pool in [&mut self.common, &mut self.slow] {
            // EndpointWindows that waited for a slot come before those that became ready later.
            if pool.free > 0 {
                pool.waiting.extend(self.ready.drain(..));
                std::mem::swap(&mut pool.waiting, &mut self.ready);
            }
        }
        while let Some(endpoint) = self.ready.pop_front() {
            let Some(window) = self.windows.get_mut(&endpoint) else { continue };
            let slot = window.slot();
            let (pool, quota) = match slot {
                Slot::Common => (&mut self.common, quota_left(&self.quotas, window)),
                Slot::Slow => (&mut self.slow, usize::MAX),
            };
            let capacity = window.capacity().min(quota);
            let count = capacity.min(pool.free);
            if count == 0 {
                if capacity == 0 {
                    // Its own next result enqueues it again: without a quota left, it holds its first slot.
                    window.queued = false;
                } else {
                    pool.waiting.push_back(endpoint);
                }
                continue;
            }
            pool.free -= count;
            match slot {
                Slot::Common => {
                    let held = window.held + count;
                    set_held(&mut self.quotas, window, held);
                }
                Slot::Slow => window.held_slow += count,
            }
            window.woken = false;
            window.queued = false;
            window.claiming = true;
            requests.push(ClaimRequest { endpoint, count, slot });
        }
        requests
    }

    /// A delivery to the endpoint was claimed, which names its account.
    pub(super) fn belongs_to(&mut self, endpoint: WebhookEndpointId, account: AccountId) {
        let Some(window) = self.windows.get_mut(&endpoint) else { return };
        if window.account.is_none() {
            window.account = Some(account);
            add_to_quota(&mut self.quotas, account, 0, window.beyond_first());
        }
    }

    /// A claim returned `claimed` deliveries. If it returned as many as requested, more may be due.
    pub(super) fn claim_finished(&mut self, request: ClaimRequest, claimed: usize) {
        if let Some(window) = self.windows.get_mut(&request.endpoint) {
            window.claiming = false;
            window.woken |= claimed >= request.count;
        }
        self.release(request.endpoint, request.slot, request.count.saturating_sub(claimed));
    }

    /// A claim failed: the deliveries are still due.
    pub(super) fn claim_failed(&mut self, request: ClaimRequest) {
        if let Some(window) = self.windows.get_mut(&request.endpoint) {
            window.woken = true;
        }
        self.claim_finished(request, 0);
    }

    /// Adjusts the window to the result. The slot stays held until [`Self::attempt_recorded`], which bounds unrecorded
    /// attempts.
    pub(super) fn attempt_finished(&mut self, endpoint: WebhookEndpointId, result: AttemptResult) {
        let Some(window) = self.windows.get_mut(&endpoint) else { return };
        window.size = match result {
            AttemptResult::Fast => (window.size + 1).min(MAX_SIZE),
            AttemptResult::Moderate => window.size,
            AttemptResult::Failed | AttemptResult::Slow => (window.size / 2).max(1),
            AttemptResult::TimedOut => 1,
        };
        window.slow = matches!(result, AttemptResult::Slow | AttemptResult::TimedOut);
    }

    /// An attempt is recorded, or was dropped.
    pub(super) fn attempt_recorded(&mut self, endpoint: WebhookEndpointId, slot: Slot) {
        self.release(endpoint, slot, 1);
    }

    fn release(&mut self, endpoint: WebhookEndpointId, slot: Slot, count: usize) {
        let Some(window) = self.windows.get_mut(&endpoint) else { return };
        match slot {
            Slot::Common => {
                let held = window.held - count;
                set_held(&mut self.quotas, window, held);
            }
            Slot::Slow => window.held_slow -= count,
        }
        self.pool(slot).free += count;
        self.enqueue_if_ready(endpoint);
        // An idle window in its initial state holds no information, so its memory is freed.
        if self.windows.get(&endpoint).is_some_and(|window| window.idle() && !window.slow && window.size == 1) {
            self.windows.remove(&endpoint);
        }
    }

    /// Attempts in flight, and slots reserved by a running claim.
    pub(super) const fn in_flight(&self) -> usize {
        SLOTS - self.common.free + SLOW_SLOTS - self.slow.free
    }
}

/// How many common slots the account's quota leaves to an endpoint.
fn quota_left(quotas: &HashMap<AccountId, usize>, window: &EndpointWindow) -> usize {
    let held = window.account.and_then(|account| quotas.get(&account)).copied().unwrap_or(0);
    usize::from(window.held == 0) + ACCOUNT_QUOTA.saturating_sub(held)
}

/// Sets how many common slots an endpoint holds.
fn set_held(quotas: &mut HashMap<AccountId, usize>, window: &mut EndpointWindow, held: usize) {
    let before = window.beyond_first();
    window.held = held;
    if let Some(account) = window.account {
        add_to_quota(quotas, account, before, window.beyond_first());
    }
}

/// An endpoint of the account holds `after` slots of its quota instead of `before`.
fn add_to_quota(quotas: &mut HashMap<AccountId, usize>, account: AccountId, before: usize, after: usize) {
    let held = quotas.entry(account).or_default();
    *held = *held + after - before;
    if *held == 0 {
        quotas.remove(&account);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(number: u128) -> WebhookEndpointId {
        WebhookEndpointId::from_uuid(uuid::Uuid::from_u128(number))
    }

    fn claim(windows: &mut EndpointWindows, number: u128) -> Option<ClaimRequest> {
        windows.wake(endpoint(number));
        let requests = windows.take_claim_requests();
        requests.into_iter().find(|request| request.endpoint == endpoint(number))
    }

    #[test]
    fn windows_grow_with_success_and_shrink_with_failure() {
        let mut windows = EndpointWindows::new();
        for width in [1, 2, 4, 8, 16, 32, 64, 64] {
            let request = claim(&mut windows, 1).expect("a free window");
            assert_eq!(request.count, width);
            windows.claim_finished(request, width);
            for _ in 0..width {
                windows.attempt_finished(endpoint(1), AttemptResult::Fast);
                windows.attempt_recorded(endpoint(1), request.slot);
            }
        }
        windows.attempt_finished(endpoint(1), AttemptResult::Failed);
        assert_eq!(claim(&mut windows, 1).map(|request| request.count), Some(32));
    }

    #[test]
    fn unresponsive_endpoints_do_not_delay_responsive_ones() {
        let mut windows = EndpointWindows::new();
        // Each endpoint times out once; from then on they share the small pool.
        for number in 0..500 {
            let request = claim(&mut windows, number).expect("a slot for each");
            assert_eq!((request.count, request.slot), (1, Slot::Common));
            windows.claim_finished(request, 1);
        }
        for number in 0..500 {
            windows.attempt_finished(endpoint(number), AttemptResult::TimedOut);
            windows.attempt_recorded(endpoint(number), Slot::Common);
        }
        assert_eq!(windows.in_flight(), 0);
        (0..500).for_each(|number| windows.wake(endpoint(number)));
        let requests = windows.take_claim_requests();
        assert_eq!(requests.len(), SLOW_SLOTS);
        assert_eq!(claim(&mut windows, 1_000).map(|request| request.slot), Some(Slot::Common));
        // The first endpoint that had to wait gets the next free slot.
        windows.claim_finished(requests[0], 0);
        let next = windows.take_claim_requests();
        assert_eq!(next.iter().map(|request| request.endpoint).collect::<Vec<_>>(), [endpoint(SLOW_SLOTS as u128)]);
    }

    /// Endpoints of one account respond until their windows are large, and then hang.
    #[test]
    fn endpoints_of_one_account_leave_common_slots_to_others() {
        const ENDPOINTS: u128 = 16;
        let mut windows = EndpointWindows::new();
        for number in 0..ENDPOINTS {
            loop {
                let request = claim(&mut windows, number).expect("a slot");
                windows.belongs_to(endpoint(number), AccountId::from_uuid(uuid::Uuid::from_u128(1)));
                if request.count == MAX_SIZE {
                    windows.claim_finished(request, 0);
                    break;
                }
                windows.claim_finished(request, request.count);
                for _ in 0..request.count {
                    windows.attempt_finished(endpoint(number), AttemptResult::Fast);
                    windows.attempt_recorded(endpoint(number), request.slot);
                }
            }
        }
        assert_eq!(windows.in_flight(), 0);

        (0..ENDPOINTS).for_each(|number| windows.wake(endpoint(number)));
        let requests = windows.take_claim_requests();
        assert_eq!(requests.len(), ENDPOINTS as usize, "each has its first slot");
        assert_eq!(windows.in_flight(), ACCOUNT_QUOTA + requests.len());
        let other = claim(&mut windows, 1_000).expect("a slot for an endpoint of another account");
        assert_eq!(other.slot, Slot::Common);

        requests.iter().for_each(|request| windows.claim_finished(*request, request.count));
        assert!(windows.take_claim_requests().is_empty(), "the quota is used up");
        let limited =
            requests.iter().find(|request| (2..MAX_SIZE).contains(&request.count)).expect("a part of its window");
        windows.attempt_recorded(limited.endpoint, limited.slot);
        let next = windows.take_claim_requests();
        assert_eq!(
            next.iter().map(|request| (request.endpoint, request.count)).collect::<Vec<_>>(),
            [(limited.endpoint, 1)]
        );
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
        let mut windows = EndpointWindows::new();
        let request = claim(&mut windows, 1).expect("free");
        windows.claim_finished(request, 1);
        for (result, slot) in [
            (AttemptResult::Slow, Slot::Slow),
            (AttemptResult::Failed, Slot::Common),
            (AttemptResult::TimedOut, Slot::Slow),
            (AttemptResult::Fast, Slot::Common),
        ] {
            windows.attempt_finished(endpoint(1), result);
            assert_eq!(windows.windows[&endpoint(1)].slot(), slot, "{result:?}");
        }
    }

    #[test]
    fn due_deliveries_are_claimed_after_a_full_window_or_a_failed_claim() {
        let mut windows = EndpointWindows::new();
        let first = claim(&mut windows, 1).expect("free");
        assert_eq!(claim(&mut windows, 1), None, "one claim at a time");
        windows.claim_finished(first, 1);
        assert!(windows.take_claim_requests().is_empty(), "the window is full");
        windows.attempt_finished(endpoint(1), AttemptResult::Fast);
        windows.attempt_recorded(endpoint(1), first.slot);
        let second = windows.take_claim_requests();
        assert_eq!(second.iter().map(|request| request.count).collect::<Vec<_>>(), [2]);
        windows.claim_failed(second[0]);
        assert_eq!(windows.take_claim_requests().len(), 1, "a failed claim is repeated");
    }

    #[test]
    fn unused_slots_and_windows_are_released() {
        let mut windows = EndpointWindows::new();
        for number in 0..100 {
            let request = claim(&mut windows, number).expect("free");
            windows.claim_finished(request, 0);
        }
        assert_eq!(windows.in_flight(), 0);
        assert!(windows.windows.is_empty());
        assert!(windows.take_claim_requests().is_empty());
    }
}
