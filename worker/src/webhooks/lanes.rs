//! How many attempts an endpoint may have under way in this process, so that none takes the place of the others.
//!
//! Each endpoint has a lane with a window, as a TCP connection has: it begins at one, grows by one with each quick success, and
//! is halved by each failure. A lane whose last attempt took its time, or got no answer, is suspect: it draws from a small pool
//! of its own. Endpoints that hang or dawdle, however many, therefore cannot hold the places of those that answer.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use common::id::WebhookEndpointId;

/// Attempts under way at once in one process.
pub(super) const PLACES: usize = 1_024;
/// Of endpoints that took their time, or did not answer, the last time.
pub(super) const SUSPECT_PLACES: usize = 64;
/// To one endpoint.
pub(super) const WIDEST: usize = 64;
/// Lanes at most. Idle ones are forgotten then, and begin anew; while none is idle, no other is opened: the sweep names its
/// endpoint again.
const MOST_LANES: usize = 10_000;

#[derive(Debug)]
struct Lane {
    window: usize,
    suspect: bool,
    /// Places held from each pool: attempts claimed and not yet recorded, and what a claim under way may bring.
    held: usize,
    held_suspect: usize,
    /// There may be something due that no claim under way has seen.
    woken: bool,
    /// It stands in one of the lines of [`Lanes`].
    queued: bool,
    claiming: bool,
}

impl Lane {
    const NEW: Self =
        Self { window: 1, suspect: false, held: 0, held_suspect: 0, woken: false, queued: false, claiming: false };

    const fn under_way(&self) -> usize {
        self.held + self.held_suspect
    }

    /// How many more it may claim, by its own window.
    const fn room(&self) -> usize {
        if self.claiming { 0 } else { self.window.saturating_sub(self.under_way()) }
    }

    const fn place(&self) -> Place {
        if self.suspect { Place::Suspect } else { Place::Common }
    }

    const fn idle(&self) -> bool {
        self.under_way() == 0 && !self.woken && !self.claiming
    }
}

/// How an attempt ended, as far as its lane is concerned: what counts is how long it held its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// 2xx, at once.
    Quick,
    /// 2xx, in a moment.
    Moderate,
    /// A failure, in a moment: refused, reset, not 2xx.
    Refused,
    /// Whatever came of it, it took its time.
    Slow,
    /// No answer at all.
    Silent,
}

impl Ended {
    /// An attempt of this length is slow.
    const SLOW: Duration = Duration::from_secs(3);
    /// Up to this length a success says that there may be more at a time.
    const QUICK: Duration = Duration::from_secs(1);

    /// What an attempt says of its lane.
    pub(super) fn of(succeeded: bool, timed_out: bool, took: Duration) -> Self {
        if timed_out {
            Self::Silent
        } else if took >= Self::SLOW {
            Self::Slow
        } else if !succeeded {
            Self::Refused
        } else if took < Self::QUICK {
            Self::Quick
        } else {
            Self::Moderate
        }
    }
}

/// A place that an attempt holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Common,
    Suspect,
}

/// What to claim for an endpoint, and from which pool its places come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) endpoint: WebhookEndpointId,
    pub(super) count: usize,
    pub(super) place: Place,
}

/// Places of one kind, and the lanes that wait for one, the longest waiting first.
#[derive(Debug)]
struct Places {
    free: usize,
    starved: VecDeque<WebhookEndpointId>,
}

/// All lanes of this process. Each call costs what it changes, not the number of lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: HashMap<WebhookEndpointId, Lane>,
    common: Places,
    suspect: Places,
    /// Lanes that were woken and have room.
    ready: VecDeque<WebhookEndpointId>,
    /// Endpoints turned away since idle lanes were last looked for.
    turned_away: usize,
}

impl Lanes {
    pub(super) fn new() -> Self {
        let places = |free| Places { free, starved: VecDeque::new() };
        Self {
            lanes: HashMap::new(),
            common: places(PLACES),
            suspect: places(SUSPECT_PLACES),
            ready: VecDeque::new(),
            turned_away: 0,
        }
    }

    fn places(&mut self, place: Place) -> &mut Places {
        match place {
            Place::Common => &mut self.common,
            Place::Suspect => &mut self.suspect,
        }
    }

    /// The endpoint may have something due.
    pub(super) fn wake(&mut self, endpoint: WebhookEndpointId) {
        if self.lanes.len() >= MOST_LANES && !self.lanes.contains_key(&endpoint) {
            // Looking for idle lanes costs their number, so not each of those turned away looks.
            if self.turned_away == 0 {
                self.lanes.retain(|_, lane| !lane.idle());
            }
            if self.lanes.len() >= MOST_LANES {
                self.turned_away = (self.turned_away + 1) % MOST_LANES;
                return;
            }
        }
        self.turned_away = 0;
        self.lanes.entry(endpoint).or_insert(Lane::NEW).woken = true;
        self.line_up(endpoint);
    }

    /// A lane that was woken and has room stands in line, once.
    fn line_up(&mut self, endpoint: WebhookEndpointId) {
        let Some(lane) = self.lanes.get_mut(&endpoint) else { return };
        if lane.woken && !lane.queued && lane.room() > 0 {
            lane.queued = true;
            self.ready.push_back(endpoint);
        }
    }

    /// What may be claimed now. Its places are held from here on; [`Self::claimed`] gives back what it did not bring.
    pub(super) fn take_wanted(&mut self) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        for places in [&mut self.common, &mut self.suspect] {
            // Who waited for a place comes first; who has no more use for one makes room for the next.
            if places.free > 0 {
                places.starved.extend(self.ready.drain(..));
                std::mem::swap(&mut places.starved, &mut self.ready);
            }
        }
        while let Some(endpoint) = self.ready.pop_front() {
            let Some(lane) = self.lanes.get_mut(&endpoint) else { continue };
            let place = lane.place();
            let places = match place {
                Place::Common => &mut self.common,
                Place::Suspect => &mut self.suspect,
            };
            let count = lane.room().min(places.free);
            if count == 0 {
                if lane.room() == 0 {
                    // Its turn comes again with its own next result.
                    lane.queued = false;
                } else {
                    places.starved.push_back(endpoint);
                }
                continue;
            }
            places.free -= count;
            match place {
                Place::Common => lane.held += count,
                Place::Suspect => lane.held_suspect += count,
            }
            lane.woken = false;
            lane.queued = false;
            lane.claiming = true;
            wanted.push(Wanted { endpoint, count, place });
        }
        wanted
    }

    /// A claim brought so many. If it brought all that was asked for, there may be more.
    pub(super) fn claimed(&mut self, wanted: Wanted, brought: usize) {
        if let Some(lane) = self.lanes.get_mut(&wanted.endpoint) {
            lane.claiming = false;
            lane.woken |= brought >= wanted.count;
        }
        self.give_back(wanted.endpoint, wanted.place, wanted.count.saturating_sub(brought));
    }

    /// A claim failed: what it was for is still due.
    pub(super) fn not_claimed(&mut self, wanted: Wanted) {
        if let Some(lane) = self.lanes.get_mut(&wanted.endpoint) {
            lane.woken = true;
        }
        self.claimed(wanted, 0);
    }

    /// An attempt has ended. Its place is given back by [`Self::recorded`], so that what is not recorded yet holds a place.
    pub(super) fn ended(&mut self, endpoint: WebhookEndpointId, ended: Ended) {
        let Some(lane) = self.lanes.get_mut(&endpoint) else { return };
        lane.window = match ended {
            Ended::Quick => (lane.window + 1).min(WIDEST),
            Ended::Moderate => lane.window,
            Ended::Refused | Ended::Slow => (lane.window / 2).max(1),
            Ended::Silent => 1,
        };
        lane.suspect = matches!(ended, Ended::Slow | Ended::Silent);
    }

    /// An attempt is recorded, or was dropped.
    pub(super) fn recorded(&mut self, endpoint: WebhookEndpointId, place: Place) {
        self.give_back(endpoint, place, 1);
    }

    fn give_back(&mut self, endpoint: WebhookEndpointId, place: Place, count: usize) {
        let Some(lane) = self.lanes.get_mut(&endpoint) else { return };
        match place {
            Place::Common => lane.held -= count,
            Place::Suspect => lane.held_suspect -= count,
        }
        self.places(place).free += count;
        self.line_up(endpoint);
        // What is remembered of an idle lane is only worth its memory if it is bad, or if it is wide.
        if self.lanes.get(&endpoint).is_some_and(|lane| lane.idle() && !lane.suspect && lane.window == 1) {
            self.lanes.remove(&endpoint);
        }
    }

    /// Attempts under way, or about to be.
    pub(super) const fn under_way(&self) -> usize {
        PLACES - self.common.free + SUSPECT_PLACES - self.suspect.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(number: u128) -> WebhookEndpointId {
        WebhookEndpointId::from_uuid(uuid::Uuid::from_u128(number))
    }

    fn claim(lanes: &mut Lanes, number: u128) -> Option<Wanted> {
        lanes.wake(endpoint(number));
        let wanted = lanes.take_wanted();
        wanted.into_iter().find(|wanted| wanted.endpoint == endpoint(number))
    }

    #[test]
    fn a_window_grows_with_success_and_shrinks_with_failure() {
        let mut lanes = Lanes::new();
        for width in [1, 2, 4, 8, 16, 32, 64, 64] {
            let wanted = claim(&mut lanes, 1).expect("a free lane");
            assert_eq!(wanted.count, width);
            lanes.claimed(wanted, width);
            for _ in 0..width {
                lanes.ended(endpoint(1), Ended::Quick);
                lanes.recorded(endpoint(1), wanted.place);
            }
        }
        lanes.ended(endpoint(1), Ended::Refused);
        assert_eq!(claim(&mut lanes, 1).map(|wanted| wanted.count), Some(32));
    }

    #[test]
    fn who_does_not_answer_holds_no_place_of_those_who_do() {
        let mut lanes = Lanes::new();
        // Each is tried once, and hangs; from then on they share the small pool.
        for number in 0..500 {
            let wanted = claim(&mut lanes, number).expect("a place for each");
            assert_eq!((wanted.count, wanted.place), (1, Place::Common));
            lanes.claimed(wanted, 1);
        }
        for number in 0..500 {
            lanes.ended(endpoint(number), Ended::Silent);
            lanes.recorded(endpoint(number), Place::Common);
        }
        assert_eq!(lanes.under_way(), 0);
        (0..500).for_each(|number| lanes.wake(endpoint(number)));
        let tried = lanes.take_wanted();
        assert_eq!(tried.len(), SUSPECT_PLACES);
        assert_eq!(claim(&mut lanes, 1_000).map(|wanted| wanted.place), Some(Place::Common));
        // Whoever had to wait is next, in turn.
        lanes.claimed(tried[0], 0);
        let next = lanes.take_wanted();
        assert_eq!(next.iter().map(|wanted| wanted.endpoint).collect::<Vec<_>>(), [endpoint(SUSPECT_PLACES as u128)]);
    }

    #[test]
    fn what_counts_is_how_long_a_place_was_held() {
        let [short, long] = [100, 14_000].map(Duration::from_millis);
        assert_eq!(Ended::of(true, false, short), Ended::Quick);
        assert_eq!(Ended::of(true, false, long), Ended::Slow, "a slow success holds its place like a failure");
        assert_eq!(Ended::of(false, false, short), Ended::Refused);
        assert_eq!(Ended::of(false, true, long), Ended::Silent);
        let mut lanes = Lanes::new();
        let wanted = claim(&mut lanes, 1).expect("free");
        lanes.claimed(wanted, 1);
        for (ended, place) in [
            (Ended::Slow, Place::Suspect),
            (Ended::Refused, Place::Common),
            (Ended::Silent, Place::Suspect),
            (Ended::Quick, Place::Common),
        ] {
            lanes.ended(endpoint(1), ended);
            assert_eq!(lanes.lanes[&endpoint(1)].place(), place, "{ended:?}");
        }
    }

    #[test]
    fn nothing_due_is_forgotten_while_a_lane_is_full_or_a_claim_is_under_way() {
        let mut lanes = Lanes::new();
        let first = claim(&mut lanes, 1).expect("free");
        assert_eq!(claim(&mut lanes, 1), None, "one claim at a time");
        lanes.claimed(first, 1);
        assert!(lanes.take_wanted().is_empty(), "the window is full");
        lanes.ended(endpoint(1), Ended::Quick);
        lanes.recorded(endpoint(1), first.place);
        let second = lanes.take_wanted();
        assert_eq!(second.iter().map(|wanted| wanted.count).collect::<Vec<_>>(), [2]);
        lanes.not_claimed(second[0]);
        assert_eq!(lanes.take_wanted().len(), 1, "a failed claim is made again");
    }

    #[test]
    fn places_and_lanes_are_given_back() {
        let mut lanes = Lanes::new();
        for number in 0..100 {
            let wanted = claim(&mut lanes, number).expect("free");
            lanes.claimed(wanted, 0);
        }
        assert_eq!(lanes.under_way(), 0);
        assert!(lanes.lanes.is_empty());
        assert!(lanes.take_wanted().is_empty());
    }
}
