//! Property tests of the field types.

use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::fuzz::{anything, check, mutated, texts};

use super::*;

/// Arbitrary JSON values, and mutations of valid strings.
fn values(near: &[&str]) -> impl Strategy<Value = Value> {
    let near: Vec<_> = near.iter().map(|text| mutated((*text).to_owned()).boxed()).collect();
    let near = proptest::strategy::Union::new(near).prop_map(Value::String);
    prop_oneof![2 => anything(), 3 => near, 1 => (-3..40i64).prop_map(Value::from)]
}

/// An accepted value equals the input according to `same`; errors do not repeat the input.
#[track_caller]
fn field<T: DeserializeOwned>(near: &[&str], same: impl Fn(&T, &Value) -> bool) {
    check(values(near), |value| match serde_json::from_value::<T>(value.clone()) {
        Ok(read) => assert!(same(&read, &value), "{value}"),
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("must be ") && message.len() < 120, "{message}");
        }
    });
}

fn is_within(number: i64, first: i64, last: i64, value: &Value) -> bool {
    // Other spellings of the number, `10.0`, `1e1` and `"10"`, are not equal.
    (first..=last).contains(&number) && *value == number
}

#[test]
fn numbers_are_whole_and_within_bounds() {
    field::<Amount>(&["10"], |read, value| is_within(read.0, 1, MAX_AMOUNT, value));
    field::<NonNegativeAmount>(&["10"], |read, value| is_within(read.0, 0, MAX_AMOUNT, value));
    field::<Quantity>(&["10"], |read, value| is_within(read.0, 1, MAX_AMOUNT, value));
    field::<IntervalCount>(&["3"], |read, value| is_within(read.0.into(), 1, 1095, value));
    field::<CadenceInterval>(&["3"], |read, value| is_within(read.0, 1, 36, value));
    field::<DayOfMonth>(&["31"], |read, value| is_within(read.0, 1, 31, value));
    field::<Flag>(&["true"], |read, value| *value == json!(read.0));
}

#[test]
fn only_known_enum_values_are_accepted() {
    field::<CheckoutIntent>(&["one_time", "store"], |_, value| *value == "one_time" || *value == "store");
    field::<EventName>(&["payment.captured"], |read, value| *value == read.0.name());
    field::<EndpointStatus>(&["enabled"], |read, value| *value == read.0.name());
    field::<AddressRole>(&["billing", "shipping"], |_, value| *value == "billing" || *value == "shipping");
    field::<PlanInterval>(&["month"], |read, value| *value == read.0.name());
    field::<Terms>(&["net_30"], |read, value| *value == read.0.name());
    field::<InvoiceMode>(&["auto_send"], |read, value| *value == read.0.name());
    field::<CadenceUnit>(&["monthly"], |read, value| *value == foundation::calendar::Cadence::unit_name(read.0));
}

#[test]
fn codes_dates_and_zones_are_parsed_exactly() {
    let same = |name: &str, value: &Value| value.as_str().is_some_and(|text| text.eq_ignore_ascii_case(name));
    field::<CurrencyCode>(&["USD", "jpy"], |read, value| same(read.0.code(), value));
    field::<CountryCode>(&["GB"], |read, value| same(read.0.code(), value));
    field::<Day>(&["2026-11-21"], |read, value| *value == read.0.to_string());
    field::<Zone>(&["America/New_York"], |read, value| same(read.0.name(), value));
    field::<Instant>(&["2026-11-21T09:30:00+01:00"], |read, value| {
        value.as_str().and_then(Timestamp::parse) == Some(read.0)
    });
}

#[test]
fn the_last_instant_is_named_in_the_error() {
    let read = |text: &str| serde_json::from_value::<Instant>(json!(text)).map(|instant| instant.0);
    let last = Timestamp::MAX.to_string().replace(".000Z", "Z");
    assert_eq!(read(&last).expect("the last instant"), Timestamp::MAX);
    for beyond in ["9999-12-30T22:00:01Z", "9999-12-31T23:59:59Z", "0000-12-31T23:59:59Z"] {
        let message = read(beyond).expect_err(beyond).to_string();
        assert!(message.contains(&last), "{message}");
    }
}

#[test]
fn strings_are_unchanged_and_bounded() {
    let plain = |text: &str| (1..=255).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    field::<Text>(&["Ada Lovelace"], |read, value| *value == read.0 && plain(&read.0));
    field::<ExternalId>(&["crm-7"], |read, value| *value == *read.0 && read.0.chars().count() <= 128);
    field::<Description>(&["A ticket"], |read, value| *value == read.0 && read.0.chars().count() <= 500);
    field::<Email>(&["ada@example.com"], |read, value| {
        *value == read.0 && plain(&read.0) && email::is_email(&read.0) && read.0.chars().count() <= 254
    });
    field::<Reference>(&["cus_1"], |read, value| *value == read.0);
    field::<WebUrl>(&["https://shop.example/thanks?a=1"], |read, value| {
        let web = url::Url::parse(&read.0).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let plain = !read.0.contains(|c: char| c.is_control() || c == ' ');
        *value == read.0 && read.0.chars().count() <= 2048 && web && plain
    });
}

#[test]
fn arbitrary_bodies_are_parsed_or_rejected() {
    let types = proptest::option::of(prop_oneof![mutated("application/json; charset=utf-8"), texts()]);
    check((types, testkit::fuzz::noise()), |(content_type, bytes)| {
        let read = Body::<Value>::of(content_type.as_deref().map(str::as_bytes), &bytes);
        let Err(error) = read else { return };
        assert_eq!(error.status(), 422);
        assert!(matches!(error.param(), None | Some("Content-Type")), "{error:?}");
    });
}

#[test]
fn nul_is_rejected_by_field_name() {
    let read = |body: &Value| Body::<Value>::of(Some(b"application/json"), body.to_string().as_bytes());
    for (body, param) in [
        (json!({"name": "\0"}), "name"),
        (json!({"items": [{}, {"description": "a\0b"}]}), "items[1].description"),
        (json!({"note": ["\0"]}), "note[0]"),
        (json!({"": "\0"}), "(empty name)"),
        (json!({"metadata": {"a\0": null}}), "metadata"),
    ] {
        assert_eq!(read(&body).err().and_then(|error| error.param().map(str::to_owned)).as_deref(), Some(param));
    }
}
