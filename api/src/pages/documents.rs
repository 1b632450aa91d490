//! Invoices and receipts as PDF, written by a few threads of their own.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::documents::{Fonts, Sheet};
use axum::body::Bytes;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use foundation::concurrency::{ConcurrencyLimit, FairConcurrencyLimit};
use foundation::error::Error;
use foundation::id::AccountId;
use tokio::task::spawn_blocking;

/// Documents written at once: each takes a processor for some milliseconds. An invoice has at most 100 lines.
const AT_ONCE: usize = 2;
const OF_ACCOUNT: usize = 1;
/// How long a request waits for its permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);
const BUSY: &str = "too many documents are being written; nothing was done, and it is safe to retry";

pub(crate) struct Documents {
    folders: Vec<PathBuf>,
    /// Loaded for the first document.
    fonts: OnceLock<Option<Fonts>>,
    limit: FairConcurrencyLimit<AccountId>,
}

impl Documents {
    pub(crate) fn new(folders: Vec<PathBuf>) -> Self {
        let limit = FairConcurrencyLimit::new(ConcurrencyLimit::new(AT_ONCE, PERMIT_TIMEOUT, BUSY), |_| OF_ACCOUNT);
        Self { folders, fonts: OnceLock::new(), limit }
    }

    /// The PDF of a document of this account. `sheet`, with the logo, is loaded once the account has a permit.
    ///
    /// # Errors
    /// [`Error::Busy`] if too many documents are being written, [`Error::Internal`] if there are no fonts, those of `sheet`.
    pub(super) async fn pdf(
        self: &Arc<Self>,
        account: AccountId,
        sheet: impl Future<Output = Result<Sheet, Error>>,
    ) -> Result<Vec<u8>, Error> {
        let permit = self.limit.acquire([account]).await?;
        let sheet = sheet.await?;
        let documents = Arc::clone(self);
        let pdf = spawn_blocking(move || {
            let _permit = permit;
            documents.write(&sheet)
        });
        pdf.await.map_err(|error| Error::internal(format!("a document was not written: {error}")))?
    }

    fn write(&self, sheet: &Sheet) -> Result<Vec<u8>, Error> {
        let fonts = self.fonts.get_or_init(|| {
            let loaded = Fonts::load(self.folders.clone());
            loaded.inspect_err(|error| tracing::error!(%error, "no document can be written; set FONTS_DIRS")).ok()
        });
        let fonts = fonts.as_ref().ok_or_else(|| Error::internal("there are no fonts"))?;
        sheet.pdf(fonts).map_err(|error| Error::internal(error.to_string()))
    }
}

/// The response with a PDF, under this file name.
pub(super) fn response(pdf: Bytes, name: &str) -> Response {
    let disposition = format!("inline; filename=\"{name}.pdf\"");
    ([(CONTENT_TYPE, "application/pdf".to_owned()), (CONTENT_DISPOSITION, disposition)], pdf).into_response()
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs;
    use std::future::pending;
    use std::ops::Range;
    use std::process::Command;

    use ::documents::{Line, Total};
    use foundation::config::fonts_dirs;
    use tokio::task::JoinSet;
    use tokio::time::sleep;
    use uuid::Uuid;

    use super::*;

    /// The most by which the resident memory may grow while nine tenths of the documents are written. The first tenth has
    /// used every font, and both threads have had their largest document; later ones only move the borders of the
    /// allocator's free memory (1 MiB). Of ten thousand documents it is less than 1 KiB for each, and a PDF has over 10 KiB.
    const GROWTH: u64 = 8 << 20;
    /// How many documents the test of memory writes; ten thousand without it.
    const COUNT: &str = "DOCUMENTS_WRITTEN_BY_TEST";

    #[tokio::test(start_paused = true)]
    async fn documents_of_an_account_keep_those_of_others_waiting_neither_to_load_nor_to_write() {
        let documents = Arc::new(Documents::new(Vec::new()));
        let account = |number| AccountId::from_uuid(Uuid::from_u128(number));
        let mut of_one = JoinSet::new();
        for _ in 0..3 {
            let documents = Arc::clone(&documents);
            of_one.spawn(async move { documents.pdf(account(1), pending()).await });
        }
        sleep(Duration::from_secs(1)).await;
        let loaded = documents.pdf(account(2), async { Err(Error::conflict("it is loaded")) }).await;
        assert!(matches!(loaded, Err(Error::Conflict(_))), "{loaded:?}");
        for _ in 0..2 {
            let waiting = of_one.join_next().await.expect("a document").expect("no panic");
            assert!(matches!(waiting, Err(Error::Busy(_))), "nothing is loaded before its permit: {waiting:?}");
        }
    }

    /// An invoice with texts of its own, every fourth one in several scripts.
    fn invoice(number: usize) -> Sheet {
        let line = |nth: usize| Line {
            description: format!("Tin {nth} of {number}"),
            detail: format!("{number} × $0.01"),
            amount: format!("${}.{:02}", number / 100, number % 100),
        };
        let scripts = if number.is_multiple_of(4) {
            "Ωμέγα 山田 김민수 नमस्ते ไทย مقعد"
        } else {
            "Lovelace"
        };
        let total = Total { name: "Total".to_owned(), amount: format!("${number}.00"), is_bold: true };
        Sheet {
            language: "en",
            title: format!("Invoice · INV-{number:06}"),
            seller: vec!["Ada's Tea".to_owned(), "12 Long Street".to_owned()],
            facts: vec![("Billed to".to_owned(), format!("Ada {scripts} {number}"))],
            columns: ["Description".to_owned(), "Amount".to_owned()],
            lines: (0..=number % 4).map(line).collect(),
            totals: vec![total],
            ..Sheet::default()
        }
    }

    /// Writes the invoices with these numbers, as many at once as may be.
    async fn write_all(documents: &Arc<Documents>, numbers: Range<usize>) {
        let of_account = async |nth: usize| {
            let account = AccountId::from_uuid(Uuid::from_u128(u128::try_from(nth).expect("a small number")));
            for number in numbers.clone().skip(nth).step_by(AT_ONCE) {
                let pdf = documents.pdf(account, async { Ok(invoice(number)) }).await.expect("a document");
                assert!(pdf.starts_with(b"%PDF") && pdf.len() > 10 << 10, "{} bytes", pdf.len());
            }
        };
        tokio::join!(of_account(0), of_account(1));
    }

    /// The resident memory of this process in bytes; `None` if the system does not say.
    fn resident() -> Option<u64> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(kib.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    }

    #[tokio::test]
    #[ignore = "writes ten thousand documents"]
    async fn documents_leave_no_memory_behind() {
        let count = env::var(COUNT).map_or(10_000, |count| count.parse().expect("a number"));
        let documents = Arc::new(Documents::new(fonts_dirs().expect("folders")));
        write_all(&documents, 0..count / 10).await;
        let before = resident();
        write_all(&documents, count / 10..count).await;
        let Some((before, after)) = before.zip(resident()) else { return };
        assert!(after <= before + GROWTH, "{before} bytes after {}, {after} after {count}", count / 10);
    }

    /// In a process of its own, because the tests of this one use memory, too.
    #[test]
    fn some_documents_leave_no_memory_behind() {
        let mut test = Command::new(env::current_exe().expect("this program"));
        test.args(["--exact", "--ignored", "pages::documents::tests::documents_leave_no_memory_behind"]);
        let output = test.env(COUNT, "100").output().expect("the test");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    }
}
