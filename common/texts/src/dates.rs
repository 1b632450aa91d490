//! Days and moments in a time zone: `28 November 2026, 17:05 CET`.

use foundation::calendar::TimeZone;
use foundation::time::Timestamp;
use icu_calendar::Gregorian;
use icu_datetime::FixedCalendarDateTimeFormatter;
use icu_datetime::fieldsets::YMD;
use jiff::Zoned;
use jiff_icu::ConvertFrom as _;

use crate::Language;

/// The local day.
pub fn date(language: Language, zone: &TimeZone, at: Timestamp) -> String {
    day(language, &zone.local(at))
}

/// The local day and time, with the zone's abbreviation.
pub fn moment(language: Language, zone: &TimeZone, at: Timestamp) -> String {
    let local = zone.local(at);
    let (time, zone) = (local.strftime("%H:%M").to_string(), local.strftime("%Z").to_string());
    let zone = match (language, zone.as_str()) {
        (Language::De, "CET") => "MEZ".to_owned(),
        (Language::De, "CEST") => "MESZ".to_owned(),
        (Language::De | Language::En | Language::Es | Language::Fr | Language::Ja, _) => zone,
    };
    language.texts().moment(day(language, &local), time, zone)
}

fn day(language: Language, local: &Zoned) -> String {
    let formatter: FixedCalendarDateTimeFormatter<Gregorian, YMD> =
        FixedCalendarDateTimeFormatter::try_new(language.locale().into(), YMD::long()).expect("compiled data");
    let date = icu_calendar::Date::<icu_calendar::Iso>::convert_from(local.date());
    let day = formatter.format(&date.to_calendar(Gregorian)).to_string();
    // CLDR writes the first of a month as any other day.
    match day.strip_prefix("1 ") {
        Some(rest) if language == Language::Fr => format!("1er {rest}"),
        _ => day,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_moments_have_the_notation_of_their_language() {
        let zone: TimeZone = "Europe/Berlin".parse().expect("a zone");
        let at = Timestamp::parse("2026-11-08T16:05:00Z").expect("an instant");
        for (language, expected) in [
            (Language::De, "8. November 2026, 17:05 Uhr MEZ"),
            (Language::En, "8 November 2026, 17:05 CET"),
            (Language::Es, "8 de noviembre de 2026 a las 17:05 CET"),
            (Language::Fr, "8 novembre 2026 à 17:05 CET"),
            (Language::Ja, "2026年11月8日 17:05 CET"),
        ] {
            assert_eq!(moment(language, &zone, at), expected);
            assert!(expected.starts_with(&date(language, &zone, at)), "{expected}");
        }
        let first = Timestamp::parse("2026-08-01T10:00:00Z").expect("an instant");
        assert_eq!(date(Language::Fr, &zone, first), "1er août 2026");
        assert_eq!(moment(Language::De, &zone, first), "1. August 2026, 12:00 Uhr MESZ");
    }
}
