//! The checks. Each runs with its own fixture.

use super::*;

pub(crate) async fn declares_its_recovery_class(fixture: &dyn Fixture) {
    for kind in [OperationKind::Sale, OperationKind::Authorize] {
        let class = fixture.provider().recovery(fixture.account(), kind).await.expect("a class");
        assert_eq!(class, fixture.class(), "{kind:?}");
    }
    for kind in [
        OperationKind::Capture,
        OperationKind::Void,
        OperationKind::Refund,
        OperationKind::StoreCard,
        OperationKind::Reverse,
        OperationKind::ReverseByRefund,
    ] {
        fixture.provider().recovery(fixture.account(), kind).await.expect("a class");
    }
}

pub(crate) async fn charges_are_approved_in_full(fixture: &dyn Fixture) {
    let (provider_ref, amount, card) = charged(response_to(fixture, &sale(fixture, "op_1").await).await);
    assert_eq!(amount, AMOUNT);
    assert_card_is_valid(&card.expect("only the provider knows the card behind a token"));
    assert_eq!(fixture.booked("op_1").await, one_sale());
    let (another, ..) = charged(response_to(fixture, &sale(fixture, "op_2").await).await);
    assert_ne!(provider_ref, another, "each charge has its own reference");
}

pub(crate) async fn authorizations_do_not_settle_until_captured(fixture: &dyn Fixture) {
    let held =
        charge(fixture, "op_1", CardOutcome::Approval, false).await.expect("every provider can approve a charge");
    let (charge, amount, _) = charged(response_to(fixture, &held).await);
    assert_eq!(amount, AMOUNT);
    assert_eq!(fixture.booked("op_1").await, [BookedCharge { amount: AMOUNT, captured: false }]);
    let late = fixture.settles_after() * 100;
    assert!(!settled(fixture, &charge, late).await, "uncaptured money does not settle");
    let capture = Action::Capture { charge: charge.clone(), money: dollars(AMOUNT) };
    assert_done(&response_to(fixture, &request(fixture, "op_2", capture)).await);
    assert!(settled(fixture, &charge, late).await);
}

pub(crate) async fn declines_have_a_code_and_a_type(fixture: &dyn Fixture) {
    let request =
        charge(fixture, "op_1", CardOutcome::Decline, true).await.expect("every provider can decline a charge");
    let decline = declined(response_to(fixture, &request).await);
    let code = &decline.code;
    assert!(
        !code.is_empty() && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
        "{code} is not one of our codes"
    );
    assert_eq!(fixture.booked("op_1").await, []);
}

pub(crate) async fn partial_approvals_are_below_the_requested_amount(fixture: &dyn Fixture) {
    let Some(request) = charge(fixture, "op_1", CardOutcome::Part, true).await else { return };
    let (_, amount, _) = charged(response_to(fixture, &request).await);
    assert!((1..AMOUNT).contains(&amount), "{amount}");
    assert_eq!(fixture.booked("op_1").await, [BookedCharge { amount, captured: true }]);
}

pub(crate) async fn unknown_tokens_are_refused(fixture: &dyn Fixture) {
    let token = || Secret::new("no-such-token".to_owned());
    let action = Action::Charge { source: Source::Token(token()), money: dollars(AMOUNT), capture: true };
    assert_refused(&response_to(fixture, &request(fixture, "op_1", action)).await);
    assert_refused(&response_to(fixture, &request(fixture, "op_2", Action::StoreCard { token: token() })).await);
    let card = Source::Card("no-such-card".to_owned());
    let action = Action::Charge { source: card, money: dollars(AMOUNT), capture: true };
    assert_refused(&response_to(fixture, &request(fixture, "op_3", action)).await);
}

pub(crate) async fn unknown_charges_are_refused(fixture: &dyn Fixture) {
    let charge = || "no-such-charge".to_owned();
    for (reference, action) in [
        ("op_1", Action::Capture { charge: charge(), money: dollars(1) }),
        ("op_2", Action::Void { charge: charge() }),
        ("op_3", Action::Refund { charge: charge(), money: dollars(1) }),
    ] {
        assert_refused(&response_to(fixture, &request(fixture, reference, action)).await);
    }
    let late = noon().plus(fixture.settles_after() * 100);
    let result = fixture.provider().inquire(charge_inquiry(fixture, fixture.account(), "no-such-charge", late)).await;
    assert!(result.is_err(), "an unknown charge has no status: {result:?}");
}

/// What a repeated request does, and what a look-up finds.
pub(crate) async fn repeated_references_follow_the_recovery_class(fixture: &dyn Fixture) {
    let request = sale(fixture, "op_1").await;
    let first = response_to(fixture, &request).await;
    let again = execute(fixture, &request).await;
    match fixture.class() {
        RecoveryClass::Idempotent | RecoveryClass::IdempotentFor(_) => {
            assert_eq!(again.expect("the first response again"), first);
            assert_eq!(fixture.booked("op_1").await, one_sale());
        }
        RecoveryClass::Lookup => {
            assert!(matches!(again, Err(ProviderError::Unknown(_))), "neither a decline nor a charge: {again:?}");
            assert_eq!(look_up(fixture, &request).await, Found::Response(first));
            assert_eq!(fixture.booked("op_1").await, one_sale());
        }
        RecoveryClass::Neither => {
            let (first, ..) = charged(first);
            let (second, ..) = charged(again.expect("class C does not recognize the reference"));
            assert_ne!(first, second);
            assert_eq!(fixture.booked("op_1").await.len(), 2, "two charges, so a request must never be repeated");
        }
    }
}

pub(crate) async fn repeated_declines_charge_nothing(fixture: &dyn Fixture) {
    let request =
        charge(fixture, "op_1", CardOutcome::Decline, true).await.expect("every provider can decline a charge");
    let first = response_to(fixture, &request).await;
    match fixture.class() {
        RecoveryClass::Idempotent | RecoveryClass::IdempotentFor(_) => {
            assert_eq!(response_to(fixture, &request).await, first)
        }
        RecoveryClass::Lookup => assert_eq!(look_up(fixture, &request).await, Found::Response(first)),
        RecoveryClass::Neither => {}
    }
    assert_eq!(fixture.booked("op_1").await, []);
}

pub(crate) async fn concurrent_duplicates_charge_once(fixture: &dyn Fixture) {
    let request = sale(fixture, "op_1").await;
    let responses = join_all((0..20).map(|_| execute(fixture, &request))).await;
    match fixture.class() {
        RecoveryClass::Idempotent | RecoveryClass::IdempotentFor(_) => {
            let mut responses = responses.into_iter().map(|response| response.expect("the same response"));
            let first = responses.next().expect("twenty");
            assert!(responses.all(|response| response == first));
        }
        RecoveryClass::Lookup => {
            let (known, unknown): (Vec<_>, Vec<_>) = responses.into_iter().partition(Result::is_ok);
            // A provider under load may reject some requests unread, but must not report them as declined or refused.
            let [Ok(first)] = &known[..] else { panic!("exactly one charge: {known:?}, {unknown:?}") };
            assert_eq!(look_up(fixture, &request).await, Found::Response(first.clone()));
        }
        // Class C guarantees nothing here; only our claims and leases prevent duplicates.
        RecoveryClass::Neither => return,
    }
    assert_eq!(fixture.booked("op_1").await, one_sale());
}

pub(crate) async fn unknown_references_are_not_found(fixture: &dyn Fixture) {
    let never_sent = sale(fixture, "op_1").await;
    assert_eq!(look_up(fixture, &never_sent).await, Found::Nothing);
    response_to(fixture, &sale(fixture, "op_2").await).await;
    assert_eq!(look_up(fixture, &never_sent).await, Found::Nothing, "only the other reference is known");
}

pub(crate) async fn a_client_timeout_does_not_cancel_the_charge(fixture: &dyn Fixture) {
    let request = sale(fixture, "op_1").await;
    fixture.hold_requests().await;
    // The caller gives up when its request has arrived.
    tokio::select! {
        response = execute(fixture, &request) => panic!("the request is held: {response:?}"),
        () = fixture.holds_a_request() => {}
    }
    assert_eq!(fixture.booked("op_1").await, []);
    fixture.release_requests().await;
    assert_eq!(eventually_booked(fixture, "op_1").await, one_sale());
    recovers(fixture, &request).await;
}

pub(crate) async fn a_lost_response_is_unknown_and_booked(fixture: &dyn Fixture) {
    fixture.drop_next_response().await;
    let request = sale(fixture, "op_1").await;
    let lost = execute(fixture, &request).await;
    assert!(
        matches!(lost, Err(ProviderError::Unknown(_))),
        "a request that has arrived must not be reported as not processed: {lost:?}"
    );
    assert_eq!(fixture.booked("op_1").await, one_sale());
    recovers(fixture, &request).await;
}

/// Recovers the response to a booked charge as its class allows, without a second charge.
async fn recovers(fixture: &dyn Fixture, request: &Request) {
    let response = match fixture.class() {
        RecoveryClass::Idempotent | RecoveryClass::IdempotentFor(_) => response_to(fixture, request).await,
        RecoveryClass::Lookup => match look_up(fixture, request).await {
            Found::Response(response) => response,
            Found::Pending | Found::Nothing => panic!("a booked charge must be found"),
        },
        RecoveryClass::Neither => return,
    };
    let (_, amount, _) = charged(response);
    assert_eq!(amount, AMOUNT);
    assert_eq!(fixture.booked(&request.reference).await, one_sale());
}

pub(crate) async fn rejected_requests_book_nothing(fixture: &dyn Fixture) {
    let request = sale(fixture, "op_1").await;
    fixture.reject_requests().await;
    let turned_away = execute(fixture, &request).await;
    assert!(matches!(turned_away, Err(ProviderError::NotProcessed { .. })), "{turned_away:?}");
    assert_eq!(fixture.booked("op_1").await, []);
    assert_eq!(look_up(fixture, &request).await, Found::Nothing);
}

pub(crate) async fn stored_cards_keep_their_behavior(fixture: &dyn Fixture) {
    for outcome in [CardOutcome::Approval, CardOutcome::Part, CardOutcome::Decline] {
        let Some(token) = fixture.token(outcome).await else { continue };
        let store = Action::StoreCard { token: Secret::new(token) };
        let response = response_to(fixture, &request(fixture, &format!("op_{outcome:?}"), store)).await;
        // A provider may decline a card when it is saved.
        if outcome == CardOutcome::Decline && matches!(response, ProviderResponse::Declined { .. }) {
            continue;
        }
        let ProviderResponse::Stored { provider_ref: stored, card: stored_card } = response else {
            panic!("expected a stored card, not {response:?}")
        };
        assert_card_is_valid(&stored_card);
        for n in 1..=2 {
            let source = Source::Card(stored.clone());
            let action = Action::Charge { source, money: dollars(AMOUNT), capture: true };
            let response = response_to(fixture, &request(fixture, &format!("op_{outcome:?}_{n}"), action)).await;
            match outcome {
                CardOutcome::Approval => {
                    let (_, amount, card) = charged(response);
                    assert_eq!(amount, AMOUNT);
                    assert!(
                        card.is_none_or(|card| card == stored_card),
                        "the saved card, if the response contains one"
                    );
                }
                CardOutcome::Part => assert!(charged(response).1 < AMOUNT),
                CardOutcome::Decline => assert!(!declined(response).code.is_empty()),
            }
        }
    }
}

pub(crate) async fn accounts_are_isolated(fixture: &dyn Fixture) {
    let mine = sale(fixture, "op_1").await;
    let (charge, ..) = charged(response_to(fixture, &mine).await);
    let theirs = |reference: &str, action: Action| Request {
        account: fixture.other_account(),
        ..request(fixture, reference, action)
    };
    assert_eq!(look_up(fixture, &theirs("op_1", mine.action.clone())).await, Found::Nothing);
    let refund = Action::Refund { charge: charge.clone(), money: dollars(1) };
    assert_refused(&response_to(fixture, &theirs("op_2", refund)).await);
    let late = noon().plus(fixture.settles_after() * 100);
    let result = fixture.provider().inquire(charge_inquiry(fixture, fixture.other_account(), &charge, late)).await;
    assert!(!matches!(&result, Ok(report) if report.status == ChargeStatus::Settled), "{result:?}");

    let token = fixture.token(CardOutcome::Approval).await.expect("every provider can approve a charge");
    let store = Action::StoreCard { token: Secret::new(token) };
    let ProviderResponse::Stored { provider_ref, .. } = response_to(fixture, &request(fixture, "op_3", store)).await
    else {
        panic!("an approved card can be stored")
    };
    let action = Action::Charge { source: Source::Card(provider_ref), money: dollars(AMOUNT), capture: true };
    assert_refused(&response_to(fixture, &theirs("op_4", action)).await);
}

pub(crate) async fn charges_settle_after_the_settlement_time(fixture: &dyn Fixture) {
    let (charge, ..) = charged(response_to(fixture, &sale(fixture, "op_1").await).await);
    let at = fixture.settles_after();
    assert!(!settled(fixture, &charge, Duration::ZERO).await);
    assert!(!settled(fixture, &charge, at.saturating_sub(Duration::from_millis(1))).await);
    assert!(settled(fixture, &charge, at).await);
    assert!(settled(fixture, &charge, at * 100).await, "and stays settled");
}

pub(crate) async fn voided_charges_never_settle(fixture: &dyn Fixture) {
    let (charge, ..) = charged(response_to(fixture, &sale(fixture, "op_1").await).await);
    let void = Action::Void { charge: charge.clone() };
    assert_done(&response_to(fixture, &request(fixture, "op_2", void)).await);
    assert!(!settled(fixture, &charge, fixture.settles_after() * 100).await);
}

pub(crate) async fn refunded_charges_stay_settled(fixture: &dyn Fixture) {
    let (charge, ..) = charged(response_to(fixture, &sale(fixture, "op_1").await).await);
    let refund = Action::Refund { charge: charge.clone(), money: dollars(AMOUNT) };
    let later = Request { now: noon().plus(fixture.settles_after()), ..request(fixture, "op_2", refund) };
    assert_done(&response_to(fixture, &later).await);
    assert!(settled(fixture, &charge, fixture.settles_after() * 100).await);
}

/// Executes a follow-up of a charge under its own reference.
async fn follow(fixture: &dyn Fixture, reference: &str, action: Action, after: Duration) -> ProviderResponse {
    response_to(fixture, &Request { now: noon().plus(after), ..request(fixture, reference, action) }).await
}

pub(crate) async fn captures_happen_once_and_within_the_authorization(fixture: &dyn Fixture) {
    let authorize =
        charge(fixture, "op_1", CardOutcome::Approval, false).await.expect("every provider can approve a charge");
    let (charge, ..) = charged(response_to(fixture, &authorize).await);
    let capture = |minor| Action::Capture { charge: charge.clone(), money: dollars(minor) };
    assert_refused(&follow(fixture, "op_2", capture(AMOUNT + 1), Duration::ZERO).await);
    assert_done(&follow(fixture, "op_3", capture(AMOUNT - 1), Duration::ZERO).await);
    assert_refused(&follow(fixture, "op_4", capture(1), Duration::ZERO).await);
    assert!(settled(fixture, &charge, fixture.settles_after()).await);
}

pub(crate) async fn settled_charges_cannot_be_voided(fixture: &dyn Fixture) {
    let (charge, ..) = charged(response_to(fixture, &sale(fixture, "op_1").await).await);
    fixture.advance(fixture.settles_after()).await;
    assert!(settled(fixture, &charge, fixture.settles_after()).await);
    let void = Action::Void { charge: charge.clone() };
    // The request was created before the charge settled and arrives later: the provider's ledger decides, not the time
    // of the request.
    assert_refused(&follow(fixture, "op_2", void, Duration::ZERO).await);
}

pub(crate) async fn refunds_cannot_exceed_the_captured_amount(fixture: &dyn Fixture) {
    let (charge, ..) = charged(response_to(fixture, &sale(fixture, "op_1").await).await);
    let refund = |minor| Action::Refund { charge: charge.clone(), money: dollars(minor) };
    assert_done(&follow(fixture, "op_2", refund(AMOUNT - 1), Duration::ZERO).await);
    assert_refused(&follow(fixture, "op_3", refund(2), Duration::ZERO).await);
    assert_done(&follow(fixture, "op_4", refund(1), Duration::ZERO).await);
}

pub(crate) async fn voided_charges_cannot_be_captured_or_refunded(fixture: &dyn Fixture) {
    let (charge, ..) = charged(response_to(fixture, &sale(fixture, "op_1").await).await);
    assert_done(&follow(fixture, "op_2", Action::Void { charge: charge.clone() }, Duration::ZERO).await);
    let money = dollars(AMOUNT);
    assert_refused(&follow(fixture, "op_3", Action::Refund { charge: charge.clone(), money }, Duration::ZERO).await);
    assert_refused(&follow(fixture, "op_4", Action::Capture { charge: charge.clone(), money }, Duration::ZERO).await);
    assert_refused(&follow(fixture, "op_5", Action::Void { charge }, Duration::ZERO).await);
}
