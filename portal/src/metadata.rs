//! Metadata in forms: a pair per line.

use serde_json::{Map, Value};

/// The name and the value of a line.
fn pair(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    Some((name.trim(), value.trim())).filter(|(name, _)| !name.is_empty())
}

fn line(name: &str, value: &str) -> String {
    format!("{name}: {value}")
}

/// The pairs that a line each can show. The others are not in forms, and stay as they are.
fn shown(metadata: &Value) -> impl Iterator<Item = (&str, &str)> {
    let pairs = metadata.as_object().into_iter().flatten();
    let pairs = pairs.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
    pairs.filter(|(name, value)| {
        let line = line(name, value);
        !line.contains(['\n', '\r']) && pair(&line) == Some((*name, *value))
    })
}

/// What a form shows.
pub(crate) fn lines(metadata: &Value) -> String {
    shown(metadata).map(|(name, value)| line(name, value)).collect::<Vec<_>>().join("\n")
}

/// What was entered; `None` if a line is no pair.
pub(crate) fn parse(entered: &str) -> Option<Map<String, Value>> {
    let lines = entered.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| pair(line).map(|(name, value)| (name.to_owned(), value.into()))).collect()
}

/// Has /v1 remove the pairs of the object that the form has shown and that were not entered again.
pub(crate) fn remove_missing(body: &mut Value, object: &Value) {
    for (name, _) in shown(&object["metadata"]) {
        if body["metadata"].get(name).is_none() {
            body["metadata"][name] = Value::Null;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::actions::Action;
    use crate::form::Entered;

    #[test]
    fn metadata_has_a_line_for_each_pair_that_fits_on_one() {
        let link = Action::find("payment-links", "save").expect("an action");
        let object = json!({"version": 3, "externalId": "a-1", "metadata": {
            "order": "1042", "note": "a: b", "empty": "", "a:b": "colon", " padded": "x", "lines": "two\nlines",
        }});
        let shown = Entered::of(link, &object);
        assert_eq!((shown.get("version"), shown.get("externalId")), ("3", "a-1"));
        let mut shown: Vec<_> = shown.get("metadata").lines().collect();
        shown.sort_unstable();
        assert_eq!(shown, ["empty: ", "note: a: b", "order: 1042"]);
        let body = |form: &str| {
            let mut body = Entered::parse(form.as_bytes()).body(link, None)?;
            remove_missing(&mut body, &object);
            Ok::<_, String>(body)
        };
        let entered = "version=3&externalId=&metadata=order%3A1043%0D%0A%0D%0A+new+name+%3A+x";
        let expected =
            json!({"externalId": null, "metadata": {"order": "1043", "new name": "x", "note": null, "empty": null}});
        assert_eq!(body(entered), Ok(expected));
        let problem = "Own data, a pair per line (order: 1042): enter a name, a colon and a value on each line";
        for wrong in ["metadata=order", "metadata=%3A1042"] {
            assert_eq!(body(wrong), Err(problem.to_owned()), "{wrong}");
        }
    }
}
