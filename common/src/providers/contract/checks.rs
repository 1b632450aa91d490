//! The checks, each with a fixture of its own.

use super::*;

pub(crate) async fn declares_its_class(fixture: &dyn Fixture) {
    for kind in [Kind::Sale, Kind::Authorize] {
        let class = fixture.provider().recovery(fixture.account(), kind).await.expect("known");
        assert_eq!(class, fixture.class(), "{kind:?}");
    }
    for kind in [Kind::Capture, Kind::Void, Kind::Refund, Kind::StoreCard, Kind::Reverse] {
        fixture.provider().recovery(fixture.account(), kind).await.expect("each kind has one");
    }
}

pub(crate) async fn a_charge_is_approved_in_full(fixture: &dyn Fixture) {
    let (provider_ref, amount, card) = charged(known(fixture, &sale(fixture, "op_1").await).await);
    assert_eq!(amount, ASKED);
    assert_shows(&card.expect("nobody but the provider has seen the card behind a token"));
    assert_eq!(fixture.booked("op_1").await, one_sale());
    let (another, ..) = charged(known(fixture, &sale(fixture, "op_2").await).await);
    assert_ne!(provider_ref, another, "each charge has a name of its own");
}

pub(crate) async fn an_authorization_takes_nothing_until_it_is_captured(fixture: &dyn Fixture) {
    let held = charge(fixture, "op_1", Wanted::Approval, false).await.expect("every provider approves something");
    let (charge, amount, _) = charged(known(fixture, &held).await);
    assert_eq!(amount, ASKED);
    assert_eq!(fixture.booked("op_1").await, [Booked { amount: ASKED, captured: false }]);
    let late = fixture.settles_after() * 100;
    assert!(!settled(fixture, &charge, late).await, "what was not taken does not settle");
    let capture = Action::Capture { charge: charge.clone(), money: dollars(ASKED) };
    assert_done(&known(fixture, &request(fixture, "op_2", capture)).await);
    assert!(settled(fixture, &charge, late).await);
}

pub(crate) async fn a_decline_has_a_code_and_a_type(fixture: &dyn Fixture) {
    let asked = charge(fixture, "op_1", Wanted::Decline, true).await.expect("every provider declines something");
    let decline = declined(known(fixture, &asked).await);
    let code = &decline.code;
    assert!(!code.is_empty() && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{code} is a word of ours");
    assert_eq!(fixture.booked("op_1").await, []);
}

pub(crate) async fn a_part_is_less_than_was_asked(fixture: &dyn Fixture) {
    let Some(asked) = charge(fixture, "op_1", Wanted::Part, true).await else { return };
    let (_, amount, _) = charged(known(fixture, &asked).await);
    assert!((1..ASKED).contains(&amount), "{amount}");
    assert_eq!(fixture.booked("op_1").await, [Booked { amount, captured: true }]);
}

pub(crate) async fn an_unknown_token_is_refused(fixture: &dyn Fixture) {
    let token = || Secret::new("no-such-token".to_owned());
    let action = Action::Charge { source: Source::Token(token()), money: dollars(ASKED), capture: true };
    assert_refused(&known(fixture, &request(fixture, "op_1", action)).await);
    assert_refused(&known(fixture, &request(fixture, "op_2", Action::StoreCard { token: token() })).await);
    let card = Source::Card("no-such-card".to_owned());
    let action = Action::Charge { source: card, money: dollars(ASKED), capture: true };
    assert_refused(&known(fixture, &request(fixture, "op_3", action)).await);
}

pub(crate) async fn an_unknown_charge_is_refused(fixture: &dyn Fixture) {
    let charge = || "no-such-charge".to_owned();
    for (reference, action) in [
        ("op_1", Action::Capture { charge: charge(), money: dollars(1) }),
        ("op_2", Action::Void { charge: charge() }),
        ("op_3", Action::Refund { charge: charge(), money: dollars(1) }),
    ] {
        assert_refused(&known(fixture, &request(fixture, reference, action)).await);
    }
    let late = noon().plus(fixture.settles_after() * 100);
    let asked = fixture.provider().inquire(inquired(fixture.account(), "no-such-charge", late)).await;
    assert!(asked.is_err(), "how a charge stands that nobody knows is no answer: {asked:?}");
}

/// The heart of recovery: what a second sending does, and what a look-up finds.
pub(crate) async fn a_repeated_reference_is_handled_by_its_class(fixture: &dyn Fixture) {
    let request = sale(fixture, "op_1").await;
    let first = known(fixture, &request).await;
    let again = execute(fixture, &request).await;
    match fixture.class() {
        RecoveryClass::Idempotent => {
            assert_eq!(again.expect("the first answer again"), first);
            assert_eq!(fixture.booked("op_1").await, one_sale());
        }
        RecoveryClass::Lookup => {
            assert!(matches!(again, Err(Fault::Unknown(_))), "neither a decline nor a charge: {again:?}");
            assert_eq!(look_up(fixture, &request).await, Found::Answer(first));
            assert_eq!(fixture.booked("op_1").await, one_sale());
        }
        RecoveryClass::Neither => {
            let (first, ..) = charged(first);
            let (second, ..) = charged(again.expect("it does not know that it has seen this"));
            assert_ne!(first, second);
            assert_eq!(fixture.booked("op_1").await.len(), 2, "which is why it is never sent again");
        }
    }
}

pub(crate) async fn a_repeated_decline_is_no_second_try(fixture: &dyn Fixture) {
    let asked = charge(fixture, "op_1", Wanted::Decline, true).await.expect("every provider declines something");
    let first = known(fixture, &asked).await;
    match fixture.class() {
        RecoveryClass::Idempotent => assert_eq!(known(fixture, &asked).await, first),
        RecoveryClass::Lookup => assert_eq!(look_up(fixture, &asked).await, Found::Answer(first)),
        RecoveryClass::Neither => {}
    }
    assert_eq!(fixture.booked("op_1").await, []);
}

pub(crate) async fn twenty_at_once_are_one_charge(fixture: &dyn Fixture) {
    let request = sale(fixture, "op_1").await;
    let answers = join_all((0..20).map(|_| execute(fixture, &request))).await;
    match fixture.class() {
        RecoveryClass::Idempotent => {
            let mut answers = answers.into_iter().map(|answer| answer.expect("the one answer"));
            let first = answers.next().expect("twenty");
            assert!(answers.all(|answer| answer == first));
        }
        RecoveryClass::Lookup => {
            let (known, unknown): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
            // A provider that is asked too much at once may turn some away unread; it calls none declined or refused for good.
            let [Ok(first)] = &known[..] else { panic!("one is charged: {known:?}, {unknown:?}") };
            assert_eq!(look_up(fixture, &request).await, Found::Answer(first.clone()));
        }
        // It promises nothing here; our claim and lease are all there is.
        RecoveryClass::Neither => return,
    }
    assert_eq!(fixture.booked("op_1").await, one_sale());
}

pub(crate) async fn an_unknown_reference_is_nothing(fixture: &dyn Fixture) {
    let never_sent = sale(fixture, "op_1").await;
    assert_eq!(look_up(fixture, &never_sent).await, Found::Nothing);
    known(fixture, &sale(fixture, "op_2").await).await;
    assert_eq!(look_up(fixture, &never_sent).await, Found::Nothing, "another reference is not this one");
}

pub(crate) async fn a_caller_that_gives_up_stops_nothing(fixture: &dyn Fixture) {
    fixture.take(SLOW).await;
    let request = sale(fixture, "op_1").await;
    let gave_up = tokio::time::timeout(SLOW / 8, execute(fixture, &request)).await;
    assert!(gave_up.is_err(), "the provider is slow");
    assert_eq!(eventually_booked(fixture, "op_1").await, one_sale());
    recovers(fixture, &request).await;
}

pub(crate) async fn a_lost_answer_is_unknown_and_booked(fixture: &dyn Fixture) {
    fixture.lose_an_answer().await;
    let request = sale(fixture, "op_1").await;
    let lost = execute(fixture, &request).await;
    assert!(matches!(lost, Err(Fault::Unknown(_))), "a request that has arrived is never called not sent: {lost:?}");
    assert_eq!(fixture.booked("op_1").await, one_sale());
    recovers(fixture, &request).await;
}

/// The class's own way to the answer of a charge that is booked, without a second one.
async fn recovers(fixture: &dyn Fixture, request: &Request) {
    let answer = match fixture.class() {
        RecoveryClass::Idempotent => known(fixture, request).await,
        RecoveryClass::Lookup => match look_up(fixture, request).await {
            Found::Answer(answer) => answer,
            Found::Pending | Found::Nothing => panic!("what is booked is found"),
        },
        RecoveryClass::Neither => return,
    };
    let (_, amount, _) = charged(answer);
    assert_eq!(amount, ASKED);
    assert_eq!(fixture.booked(&request.reference).await, one_sale());
}

pub(crate) async fn a_refusal_books_nothing(fixture: &dyn Fixture) {
    let request = sale(fixture, "op_1").await;
    fixture.refuse().await;
    let turned_away = execute(fixture, &request).await;
    assert!(matches!(turned_away, Err(Fault::NotProcessed { .. })), "{turned_away:?}");
    assert_eq!(fixture.booked("op_1").await, []);
    assert_eq!(look_up(fixture, &request).await, Found::Nothing);
}

pub(crate) async fn a_stored_card_keeps_its_nature(fixture: &dyn Fixture) {
    for wanted in [Wanted::Approval, Wanted::Part, Wanted::Decline] {
        let Some(token) = fixture.token(wanted).await else { continue };
        let store = Action::StoreCard { token: Secret::new(token) };
        let answer = known(fixture, &request(fixture, &format!("op_{wanted:?}"), store)).await;
        // A provider may find out at once that a card is no good.
        if wanted == Wanted::Decline && matches!(answer, Answer::Declined { .. }) {
            continue;
        }
        let Answer::Stored { provider_ref: stored, card: face } = answer else {
            panic!("a stored card was wanted, not {answer:?}")
        };
        assert_shows(&face);
        for n in 1..=2 {
            let source = Source::Card(stored.clone());
            let action = Action::Charge { source, money: dollars(ASKED), capture: true };
            let answer = known(fixture, &request(fixture, &format!("op_{wanted:?}_{n}"), action)).await;
            match wanted {
                Wanted::Approval => {
                    let (_, amount, card) = charged(answer);
                    assert_eq!(amount, ASKED);
                    assert!(card.is_none_or(|card| card == face), "the card that was named, if anything is said of it");
                }
                Wanted::Part => assert!(charged(answer).1 < ASKED),
                Wanted::Decline => assert!(!declined(answer).code.is_empty()),
            }
        }
    }
}

pub(crate) async fn another_account_sees_nothing(fixture: &dyn Fixture) {
    let mine = sale(fixture, "op_1").await;
    let (charge, ..) = charged(known(fixture, &mine).await);
    let theirs = |reference: &str, action: Action| Request {
        account: fixture.other_account(),
        ..request(fixture, reference, action)
    };
    assert_eq!(look_up(fixture, &theirs("op_1", mine.action.clone())).await, Found::Nothing);
    let refund = Action::Refund { charge: charge.clone(), money: dollars(1) };
    assert_refused(&known(fixture, &theirs("op_2", refund)).await);
    let late = noon().plus(fixture.settles_after() * 100);
    let asked = fixture.provider().inquire(inquired(fixture.other_account(), &charge, late)).await;
    assert!(!matches!(&asked, Ok(told) if told.standing == Standing::Settled), "{asked:?}");

    let token = fixture.token(Wanted::Approval).await.expect("every provider approves something");
    let store = Action::StoreCard { token: Secret::new(token) };
    let Answer::Stored { provider_ref, .. } = known(fixture, &request(fixture, "op_3", store)).await else {
        panic!("a good card is stored")
    };
    let action = Action::Charge { source: Source::Card(provider_ref), money: dollars(ASKED), capture: true };
    assert_refused(&known(fixture, &theirs("op_4", action)).await);
}

pub(crate) async fn money_settles_after_its_time(fixture: &dyn Fixture) {
    let (charge, ..) = charged(known(fixture, &sale(fixture, "op_1").await).await);
    let at = fixture.settles_after();
    assert!(!settled(fixture, &charge, Duration::ZERO).await);
    assert!(!settled(fixture, &charge, at.saturating_sub(Duration::from_millis(1))).await);
    assert!(settled(fixture, &charge, at).await);
    assert!(settled(fixture, &charge, at * 100).await, "and stays so");
}

pub(crate) async fn voided_money_never_settles(fixture: &dyn Fixture) {
    let (charge, ..) = charged(known(fixture, &sale(fixture, "op_1").await).await);
    let void = Action::Void { charge: charge.clone() };
    assert_done(&known(fixture, &request(fixture, "op_2", void)).await);
    assert!(!settled(fixture, &charge, fixture.settles_after() * 100).await);
}

pub(crate) async fn a_refund_leaves_the_charge_settled(fixture: &dyn Fixture) {
    let (charge, ..) = charged(known(fixture, &sale(fixture, "op_1").await).await);
    let refund = Action::Refund { charge: charge.clone(), money: dollars(ASKED) };
    let later = Request { now: noon().plus(fixture.settles_after()), ..request(fixture, "op_2", refund) };
    assert_done(&known(fixture, &later).await);
    assert!(settled(fixture, &charge, fixture.settles_after() * 100).await);
}

/// What follows a charge, under a reference of its own.
async fn follow(fixture: &dyn Fixture, reference: &str, action: Action, after: Duration) -> Answer {
    known(fixture, &Request { now: noon().plus(after), ..request(fixture, reference, action) }).await
}

pub(crate) async fn captured_is_captured_once_and_within_the_authorization(fixture: &dyn Fixture) {
    let authorize = charge(fixture, "op_1", Wanted::Approval, false).await.expect("every provider approves something");
    let (charge, ..) = charged(known(fixture, &authorize).await);
    let capture = |minor| Action::Capture { charge: charge.clone(), money: dollars(minor) };
    assert_refused(&follow(fixture, "op_2", capture(ASKED + 1), Duration::ZERO).await);
    assert_done(&follow(fixture, "op_3", capture(ASKED - 1), Duration::ZERO).await);
    assert_refused(&follow(fixture, "op_4", capture(1), Duration::ZERO).await);
    assert!(settled(fixture, &charge, fixture.settles_after()).await);
}

pub(crate) async fn settled_money_is_not_voided(fixture: &dyn Fixture) {
    let (charge, ..) = charged(known(fixture, &sale(fixture, "op_1").await).await);
    fixture.pass(fixture.settles_after()).await;
    assert!(settled(fixture, &charge, fixture.settles_after()).await);
    let void = Action::Void { charge: charge.clone() };
    // The request was made before the money settled and arrives after: the provider's books decide, not the request's time.
    assert_refused(&follow(fixture, "op_2", void, Duration::ZERO).await);
}

pub(crate) async fn no_more_goes_back_than_was_taken(fixture: &dyn Fixture) {
    let (charge, ..) = charged(known(fixture, &sale(fixture, "op_1").await).await);
    let refund = |minor| Action::Refund { charge: charge.clone(), money: dollars(minor) };
    assert_done(&follow(fixture, "op_2", refund(ASKED - 1), Duration::ZERO).await);
    assert_refused(&follow(fixture, "op_3", refund(2), Duration::ZERO).await);
    assert_done(&follow(fixture, "op_4", refund(1), Duration::ZERO).await);
}

pub(crate) async fn voided_money_is_neither_captured_nor_refunded(fixture: &dyn Fixture) {
    let (charge, ..) = charged(known(fixture, &sale(fixture, "op_1").await).await);
    assert_done(&follow(fixture, "op_2", Action::Void { charge: charge.clone() }, Duration::ZERO).await);
    let money = dollars(ASKED);
    assert_refused(&follow(fixture, "op_3", Action::Refund { charge: charge.clone(), money }, Duration::ZERO).await);
    assert_refused(&follow(fixture, "op_4", Action::Capture { charge: charge.clone(), money }, Duration::ZERO).await);
    assert_refused(&follow(fixture, "op_5", Action::Void { charge }, Duration::ZERO).await);
}
