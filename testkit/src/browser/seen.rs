//! What the browser tells unasked: its tabs and frames, every request, every complaint.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{record::Request, wire::Wire};

/// Bodies up to this size come with the request; longer ones are asked for.
const BODY_MAX: u64 = 1 << 20;

/// Where scripts of a frame run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) session: String,
    pub(super) context: i64,
}

/// All that was told so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The session of each tab, frame of another site, or worker.
    sessions: HashMap<String, String>,
    places: HashMap<String, Place>,
    requests: Vec<Request>,
    /// What the network stack adds to the headers of a request, told before the request or after it. A redirect has the id
    /// of the request that led to it, so both get all of it.
    more_headers: HashMap<String, Vec<String>>,
    sockets: HashMap<String, String>,
    complaints: Vec<String>,
}

impl Seen {
    pub(super) fn session_of(&self, target: &str) -> Option<String> {
        self.sessions.get(target).cloned()
    }

    pub(super) fn place_of(&self, frame: &str) -> Option<Place> {
        self.places.get(frame).cloned()
    }

    /// Of everything that is open now.
    pub(super) fn sessions(&self) -> Vec<String> {
        self.sessions.values().cloned().collect()
    }

    pub(super) fn requests(&self) -> &[Request] {
        &self.requests
    }

    pub(super) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Whether each request is there with its body, or with the reason why not.
    pub(super) fn is_whole(&self) -> bool {
        self.requests.iter().all(|request| request.body_missing.as_deref() != Some(""))
    }

    /// The body that was asked for.
    pub(super) fn body(&mut self, index: usize, answer: Result<Value, String>) {
        let Some(request) = self.requests.get_mut(index) else { return };
        let given = answer.and_then(|answer| match (answer["postData"].as_str(), &answer["base64Encoded"]) {
            (Some(text), Value::Bool(true)) => STANDARD.decode(text).map_err(|error| error.to_string()),
            (Some(text), _) => Ok(text.as_bytes().to_vec()),
            (None, _) => Err("no body in the answer".to_owned()),
        });
        request.body_missing = match given {
            Ok(body) => {
                request.body = body;
                None
            }
            Err(complaint) => Some(complaint),
        };
    }

    /// An event, as the reading thread gets it.
    pub(super) fn take(wire: &Wire, session: &str, method: &str, told: &Value) {
        match method {
            "Target.attachedToTarget" => attached(wire, told),
            "Target.detachedFromTarget" => {
                let gone = text(&told["sessionId"]);
                let mut seen = wire.seen();
                seen.sessions.retain(|_, session| *session != gone);
                seen.places.retain(|_, place| place.session != gone);
            }
            "Runtime.executionContextCreated" => {
                let context = &told["context"];
                if context["auxData"]["isDefault"] == true {
                    let place = Place { session: session.to_owned(), context: context["id"].as_i64().unwrap_or(0) };
                    wire.seen().places.insert(text(&context["auxData"]["frameId"]), place);
                }
            }
            "Runtime.executionContextDestroyed" => {
                let context = told["executionContextId"].as_i64().unwrap_or(0);
                let gone = Place { session: session.to_owned(), context };
                wire.seen().places.retain(|_, place| *place != gone);
            }
            "Runtime.executionContextsCleared" => wire.seen().places.retain(|_, place| place.session != session),
            "Page.javascriptDialogOpening" => {
                wire.seen().complaints.push(format!("a dialog: {}", text(&told["message"])));
                wire.tell(session, "Page.handleJavaScriptDialog", json!({"accept": true}));
            }
            "Network.requestWillBeSent" => {
                let (mut request, missing) = request(told);
                let mut seen = wire.seen();
                request.headers.extend(seen.more_headers.get(&request.id).into_iter().flatten().cloned());
                let index = seen.requests.len();
                let id = request.id.clone();
                seen.requests.push(request);
                drop(seen);
                if missing {
                    wire.ask_body(session, &id, index);
                }
            }
            // Only those that `Tab::drop_answers` names are paused, and by then their answers are here.
            "Fetch.requestPaused" => {
                let request = text(&told["requestId"]);
                wire.tell(
                    session,
                    "Fetch.failRequest",
                    json!({"requestId": request, "errorReason": "ConnectionReset"}),
                );
            }
            "Network.requestWillBeSentExtraInfo" => wire.seen().more_headers(told),
            "Network.webSocketCreated" => {
                let request = Request { method: "GET".into(), url: text(&told["url"]), ..Request::default() };
                let mut seen = wire.seen();
                seen.sockets.insert(text(&told["requestId"]), request.url.clone());
                seen.requests.push(request);
            }
            "Network.webSocketFrameSent" => {
                let mut seen = wire.seen();
                let url = seen.sockets.get(&text(&told["requestId"])).cloned().unwrap_or_default();
                let body = text(&told["response"]["payloadData"]).into_bytes();
                seen.requests.push(Request { method: "SEND".into(), url, body, ..Request::default() });
            }
            _ => {
                if let Some(complaint) = complaint(method, told) {
                    wire.seen().complaints.push(complaint);
                }
            }
        }
    }

    fn more_headers(&mut self, told: &Value) {
        let (id, headers) = (text(&told["requestId"]), headers(&told["headers"]));
        for request in self.requests.iter_mut().filter(|request| request.id == id) {
            request.headers.extend(headers.iter().cloned());
        }
        self.more_headers.entry(id).or_default().extend(headers);
    }
}

/// A new tab, frame or worker. It waits until it is told to run, so nothing that it does can be missed.
fn attached(wire: &Wire, told: &Value) {
    let session = text(&told["sessionId"]);
    let info = &told["targetInfo"];
    wire.tell(&session, "Network.enable", json!({"maxPostDataSize": BODY_MAX}));
    wire.tell(&session, "Runtime.enable", json!({}));
    wire.tell(&session, "Log.enable", json!({}));
    wire.tell(&session, "Target.setAutoAttach", attach_to_all());
    if info["type"] == "page" || info["type"] == "iframe" {
        wire.tell(&session, "Page.enable", json!({}));
    }
    if info["type"] == "page" {
        // Of several tabs only one is in front, and each is to behave as if it were.
        wire.tell(&session, "Emulation.setFocusEmulationEnabled", json!({"enabled": true}));
    }
    wire.tell(&session, "Runtime.runIfWaitingForDebugger", json!({}));
    wire.seen().sessions.insert(text(&info["targetId"]), session);
}

/// Whatever opens is watched from its first moment on.
pub(super) fn attach_to_all() -> Value {
    json!({"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true})
}

/// A request, and whether its body must be asked for.
fn request(told: &Value) -> (Request, bool) {
    let sent = &told["request"];
    let entries = sent["postDataEntries"].as_array();
    let bytes = entries.and_then(|entries| {
        let parts = entries.iter().map(|entry| STANDARD.decode(entry["bytes"].as_str()?).ok());
        parts.collect::<Option<Vec<_>>>().map(|parts| parts.concat())
    });
    let body = bytes.or_else(|| sent["postData"].as_str().map(|text| text.as_bytes().to_vec()));
    let missing = sent["hasPostData"] == true && body.is_none();
    let request = Request {
        method: text(&sent["method"]),
        url: text(&sent["url"]),
        headers: headers(&sent["headers"]),
        body: body.unwrap_or_default(),
        id: text(&told["requestId"]),
        body_missing: missing.then(String::new),
    };
    (request, missing)
}

fn headers(headers: &Value) -> Vec<String> {
    let pairs = headers.as_object().into_iter().flatten();
    pairs.map(|(name, value)| format!("{name}: {}", text(value))).collect()
}

/// What a developer would see in red, and a page's breach of its own policy.
fn complaint(method: &str, told: &Value) -> Option<String> {
    match method {
        "Log.entryAdded" => {
            let entry = &told["entry"];
            (entry["level"] == "error" || entry["source"] == "security")
                .then(|| format!("{}: {} ({})", text(&entry["source"]), text(&entry["text"]), text(&entry["url"])))
        }
        "Runtime.consoleAPICalled" if told["type"] == "error" || told["type"] == "assert" => {
            let said = told["args"].as_array().into_iter().flatten();
            let said: Vec<_> = said.map(|part| text(part.get("value").unwrap_or(&part["description"]))).collect();
            Some(format!("console: {}", said.join(" ")))
        }
        "Runtime.exceptionThrown" => {
            let thrown = &told["exceptionDetails"];
            Some(format!("exception: {} {}", text(&thrown["text"]), text(&thrown["exception"]["description"])))
        }
        _ => None,
    }
}

/// A string as it is, nothing as nothing, anything else as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
