//! Forms as browsers send them: one field after the other in a text, or as parts if there is a file.

use std::sync::LazyLock;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::header::CONTENT_TYPE;
use foundation::body::{self, ReadError, Reading};
use foundation::concurrency::{ConcurrencyLimit, FairConcurrencyLimit, Permit};
use foundation::crypto::{hex, sha256};
use foundation::id::AccountId;
use futures_util::StreamExt as _;
use tokio::time::timeout;

use crate::app::App;
use crate::failure::Failure;
use crate::form::Entered;
use crate::picture;
use crate::texts::text;

const PARTS: &[u8] = b"multipart/form-data";
/// The longest form without a file: 16 KiB of metadata can take three times as much in a form.
const MAX_FORM: usize = 64 * 1_024;
/// The longest form with a file: the file and what is around it.
const MAX_UPLOAD: usize = picture::MAX_FILE + 16 * 1_024;
/// How much of a form with a file that is too long is read all the same. Browsers show a response only after they have sent
/// the form.
const MAX_DISCARDED: usize = 2 << 20;
/// The time for a form to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Long forms at once: they need more memory than is planned for a connection, until their file is read.
static LONG_FORMS: LazyLock<FairConcurrencyLimit<AccountId>> = LazyLock::new(|| {
    FairConcurrencyLimit::new(ConcurrencyLimit::new(AT_ONCE, PERMIT_TIMEOUT, BUSY), |_| ACCOUNT_QUOTA)
});
const AT_ONCE: usize = 8;
const ACCOUNT_QUOTA: usize = 2;
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);
const BUSY: &str = "too many files are being received; nothing was done, and it is safe to retry";

/// A form without a file. Its extractor is the last of a route: the address and the session are checked before anything is
/// read.
impl FromRequest<App> for Entered {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &App) -> Result<Self, Failure> {
        read(request.into_body()).await
    }
}

async fn read(form: Body) -> Result<Entered, Failure> {
    let form = body::read(form, MAX_FORM, BODY_TIMEOUT).await;
    Ok(Entered::parse(&form.map_err(|_| invalid("The form is too long or incomplete."))?))
}

/// The form of an action with a file, of a user who may do that in this account. The hash of the file is entered in its
/// place. The file of a long form holds the permit, which is acquired when more than [`MAX_FORM`] has arrived, because a
/// length can be announced without sending anything.
pub(crate) async fn with_file(request: Request, account: AccountId) -> Result<(Entered, Option<Bytes>), Failure> {
    let (head, form) = request.into_parts();
    if !head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(PARTS)) {
        return Ok((read(form).await?, None));
    }
    let length = form.size_hint().lower();
    if length > MAX_UPLOAD as u64 && length <= MAX_DISCARDED as u64 {
        discard(form).await;
        return Err(invalid(picture::TOO_LONG));
    }
    let mut reading = Reading::begin(form, MAX_UPLOAD, BODY_TIMEOUT).map_err(unread)?;
    let permit = match reading.exceeds(MAX_FORM).await.map_err(unread)? {
        true => Some(LONG_FORMS.acquire([account]).await.map_err(Failure::of_limited)?),
        false => None,
    };
    let form = Body::from(reading.finish().await.map_err(unread)?);
    let form = Multipart::from_request(Request::from_parts(head, form), &()).await;
    parts(form.map_err(|_| incomplete())?, permit).await
}

/// Reads a form to its end and keeps nothing of it.
async fn discard(form: Body) {
    let mut chunks = form.into_data_stream();
    let _ = timeout(BODY_TIMEOUT, async { while let Some(Ok(_)) = chunks.next().await {} }).await;
}

/// The hash of a file that was not chosen is empty. Only the file may be longer than a form without one, because the fields
/// are kept for longer.
async fn parts(mut form: Multipart, permit: Option<Permit>) -> Result<(Entered, Option<Bytes>), Failure> {
    let (mut entered, mut file, mut room) = (Vec::new(), None, MAX_FORM);
    while let Some(field) = form.next_field().await.map_err(|_| incomplete())? {
        let (Some(name), is_file) = (field.name().map(str::to_owned), field.file_name().is_some()) else {
            return Err(incomplete());
        };
        let content = field.bytes().await.map_err(|_| incomplete())?;
        let value = match is_file {
            true if content.is_empty() => String::new(),
            true => hex(&sha256(&content)),
            false => std::str::from_utf8(&content).map_err(|_| incomplete())?.trim().to_owned(),
        };
        room = room.checked_sub(name.len() + value.len()).ok_or_else(incomplete)?;
        entered.push((name, value));
        if is_file {
            file = Some(content);
        }
    }
    let file = match (file, permit) {
        (Some(file), Some(permit)) => Some(permit.hold(file)),
        (file, _) => file,
    };
    Ok((Entered(entered), file))
}

fn unread(error: ReadError) -> Failure {
    match error {
        ReadError::TooLong => invalid(picture::TOO_LONG),
        ReadError::TooLate | ReadError::Incomplete => incomplete(),
    }
}

fn incomplete() -> Failure {
    invalid("The form is incomplete.")
}

fn invalid(problem: &'static str) -> Failure {
    Failure::Invalid(text(problem).to_owned())
}

#[cfg(test)]
mod tests {
    use std::io;

    use foundation::time::Timestamp;
    use futures_util::stream;
    use tokio::task::JoinSet;
    use tokio::time::sleep;

    use super::*;

    /// A form of one part with this content, of a file if it has a file name.
    fn form(name: &str, content: &[u8]) -> Body {
        let head = format!("--part\r\nContent-Disposition: form-data; {name}\r\n\r\n");
        [head.as_bytes(), content, b"\r\n--part--\r\n"].concat().into()
    }

    async fn receive(form: Body, account: AccountId) -> Result<(Entered, Option<Bytes>), Failure> {
        let request = Request::builder().header(CONTENT_TYPE, "multipart/form-data; boundary=part");
        with_file(request.body(form).expect("a request"), account).await
    }

    /// A form of which this many bytes arrive, and no end.
    fn unfinished(length: usize) -> Body {
        let sent = stream::iter([Ok::<_, io::Error>(Bytes::from(vec![b'x'; length]))]);
        Body::from_stream(sent.chain(stream::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn long_forms_of_some_accounts_keep_no_other_waiting() {
        let account = |number| AccountId::new(Timestamp::from_millisecond(number).expect("in range"));
        let (accounts, mut unfinished_forms) = ([1, 2].map(account), JoinSet::new());
        // Two accounts use up their quotas and wait for more. Half the forms are too short to need a permit.
        for number in 0..20 {
            unfinished_forms.spawn(receive(unfinished(MAX_FORM + 1), accounts[number % accounts.len()]));
            unfinished_forms.spawn(receive(unfinished(MAX_FORM), accounts[0]));
        }
        sleep(Duration::from_secs(1)).await;
        let (other, content) = (account(3), vec![b'x'; picture::MAX_FILE]);
        let sent = |length: usize| receive(form("name=\"logo\"; filename=\"a.png\"", &content[..length]), other);
        let (entered, file) = sent(picture::MAX_FILE).await.expect("a permit");
        assert_eq!(entered.get("logo"), hex(&sha256(&content)));
        assert_eq!(file.as_deref(), Some(&content[..]));
        let _second = sent(picture::MAX_FILE).await.expect("a permit");
        assert!(matches!(sent(MAX_FORM).await, Err(Failure::Unavailable)), "the files hold their permits");
        assert_eq!(sent(1_000).await.expect("no permit is needed").1.map(|file| file.len()), Some(1_000));
        drop(file);
        assert!(sent(MAX_FORM).await.is_ok(), "a permit is released with its file");
        let (mut without_permit, mut without_end) = (0, 0);
        while let Some(received) = unfinished_forms.join_next().await {
            let received = received.expect("no panic");
            without_permit += usize::from(matches!(received, Err(Failure::Unavailable)));
            without_end += usize::from(matches!(received, Err(Failure::Invalid(_))));
        }
        assert_eq!((without_permit, without_end), (20 - 2 * ACCOUNT_QUOTA, 20 + 2 * ACCOUNT_QUOTA));
    }

    #[tokio::test]
    async fn only_a_file_may_be_longer_than_a_form_without_one() {
        let account = AccountId::new(Timestamp::from_millisecond(10).expect("in range"));
        let (longest, too_long) = ([b'x'; MAX_FORM - 4], [b'x'; MAX_FORM]);
        let (entered, file) = receive(form("name=\"logo\"", &longest), account).await.expect("a form");
        assert_eq!((entered.get("logo").len(), file), (longest.len(), None));
        assert!(receive(form("name=\"logo\"", &too_long), account).await.is_err());
        let file_with_long_name = format!("name=\"{}\"; filename=\"a.png\"", "x".repeat(MAX_FORM));
        assert!(receive(form(&file_with_long_name, b"x"), account).await.is_err());
        let (entered, file) = receive(form("name=\"logo\"; filename=\"a.png\"", b""), account).await.expect("a form");
        assert_eq!((entered.get("logo"), file.map(|file| file.len())), ("", Some(0)));
        for length in [MAX_UPLOAD + 1, MAX_DISCARDED, MAX_DISCARDED + 1] {
            let refused = receive(Body::from(vec![b'x'; length]), account).await;
            assert!(matches!(refused, Err(Failure::Invalid(problem)) if problem == picture::TOO_LONG), "{length}");
        }
    }
}
