//! Voids of captured charges, which are refunds.

use super::*;

/// A captured charge, and its void.
async fn void(fixture: &StripeFixture) -> (String, Request) {
    let (charge, ..) = charged(fixture.execute(&fixture.sale("op_1", CardBehavior::Approve)).await);
    let void = request(fixture, "op_2", Action::Void { charge: charge.clone() });
    (charge, void)
}

/// The request of the previous release, which had the key of a cancellation. Returns the refund's id.
async fn void_as_previously(fixture: &StripeFixture, charge: &str) -> String {
    let form = Form::new().with("payment_intent", charge).with("amount", "1250").with_metadata("reference", "op_2");
    let refunded = fixture.post("/v1/refunds", "op_2", form.with_metadata("void", "true")).await;
    let Reply::Success { object, .. } = refunded else { panic!("{refunded:?}") };
    object["id"].as_str().expect("an id").to_owned()
}

fn done(response: ProviderResponse) -> String {
    let ProviderResponse::Done { provider_ref } = response else { panic!("{response:?}") };
    provider_ref
}

fn refunds(fixture: &StripeFixture) -> usize {
    fixture.stripe.objects(&fixture.keys, "refund").len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_void_whose_answer_was_lost_is_found_after_the_money_is_available() {
    let fixture = StripeFixture::new().await;
    let (_, void) = void(&fixture).await;
    fixture.stripe.lose_responses(1);
    let lost = fixture.adapter.execute(void.clone()).await;
    assert!(matches!(lost, Err(ProviderError::Unknown(_))), "{lost:?}");
    fixture.stripe.advance(double::AVAILABLE_AFTER);
    done(fixture.execute(&void).await);
}

/// The charge was captured while its void was under way, and the answer to the cancellation was lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_void_is_a_refund_after_a_refused_cancellation() {
    let fixture = StripeFixture::new().await;
    let (charge, void) = void(&fixture).await;
    let refused = fixture.post(&format!("/v1/payment_intents/{charge}/cancel"), "op_2", Form::new()).await;
    assert!(matches!(refused, Reply::Refused(_)), "{refused:?}");
    // Whether there is a refund must be known before another is requested.
    fixture.stripe.forbid(&fixture.keys, "Refunds: read");
    let failed = fixture.adapter.execute(void.clone()).await;
    assert!(matches!(failed, Err(ProviderError::Unknown(_))), "{failed:?}");
    assert_eq!(refunds(&fixture), 0);
    fixture.stripe.permit(&fixture.keys, "Refunds: read");
    let response = fixture.execute(&void).await;
    assert_eq!(fixture.execute(&void).await, response, "again");
    done(response);
    assert_eq!(refunds(&fixture), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_void_reads_no_refunds() {
    let fixture = StripeFixture::new().await;
    let (_, void) = void(&fixture).await;
    fixture.stripe.forbid(&fixture.keys, "Refunds: read");
    done(fixture.execute(&void).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_void_of_the_previous_release_is_not_repeated() {
    let fixture = StripeFixture::new().await;
    let (charge, void) = void(&fixture).await;
    let previous = void_as_previously(&fixture, &charge).await;
    assert_eq!(done(fixture.execute(&void).await), previous);
    assert_eq!(refunds(&fixture), 1);
}

/// A refusal of that request would be recorded as the outcome of the void.
#[tokio::test(flavor = "multi_thread")]
async fn a_void_of_this_release_is_repeated_by_the_previous() {
    let fixture = StripeFixture::new().await;
    let (charge, void) = void(&fixture).await;
    let response = fixture.execute(&void).await;
    assert_eq!(void_as_previously(&fixture, &charge).await, done(response));
    assert_eq!(refunds(&fixture), 1);
}
