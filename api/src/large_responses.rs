//! Responses that need more memory than is planned for a connection: logos and documents. A client may take a minute to read
//! one, so their number is limited. A logo is in memory once, however many clients read it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::body::Bytes;
use foundation::concurrency::{ConcurrencyLimit, FairConcurrencyLimit, Permit};
use foundation::error::Result;
use foundation::id::{AccountId, LogoId};

use crate::quotas::Owner;

/// Each takes about 0.5 MB.
const AT_ONCE: usize = 64;
/// How long a request waits for its permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);
const BUSY: &str = "too many logos and documents are being read; nothing was done, and it is safe to retry";

const OF_NETWORK: usize = 8;
const OF_SITE: usize = 16;
const OF_ACCOUNT: usize = 16;

const fn quota(owner: &Owner) -> usize {
    match owner {
        Owner::Network(_) => OF_NETWORK,
        Owner::Site(_) => OF_SITE,
        Owner::Account(_) => OF_ACCOUNT,
    }
}

pub(crate) struct LargeResponses {
    limit: FairConcurrencyLimit<Owner>,
    /// The logos that are being read.
    logos: Mutex<HashMap<LogoId, Weak<Bytes>>>,
}

/// A logo that a client is reading.
struct LogoInUse(Arc<Bytes>);

impl AsRef<[u8]> for LogoInUse {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl LargeResponses {
    pub(crate) fn new() -> Self {
        let limit = FairConcurrencyLimit::new(ConcurrencyLimit::new(AT_ONCE, PERMIT_TIMEOUT, BUSY), quota);
        Self { limit, logos: Mutex::default() }
    }

    /// A permit for a response to this client, which holds it.
    ///
    /// # Errors
    /// [`foundation::error::Error::Busy`] if none becomes free in time.
    pub(crate) async fn acquire(&self, client: IpAddr, account: AccountId) -> Result<Permit> {
        self.limit.acquire(Owner::of(client, account)).await
    }

    /// The logo of an account, for this client. It is loaded unless another client is reading it.
    ///
    /// # Errors
    /// Those of [`Self::acquire`] and of `load`.
    pub(crate) async fn logo(
        &self,
        (id, account): (LogoId, AccountId),
        client: IpAddr,
        load: impl Future<Output = Result<Option<Vec<u8>>>>,
    ) -> Result<Option<Bytes>> {
        if let Some(logo) = self.in_use(id) {
            return Ok(Some(logo));
        }
        let permit = self.acquire(client, account).await?;
        if let Some(logo) = self.in_use(id) {
            return Ok(Some(logo));
        }
        Ok(load.await?.map(|png| self.share(id, permit.hold(png))))
    }

    fn in_use(&self, id: LogoId) -> Option<Bytes> {
        let logos = self.logos.lock().unwrap_or_else(PoisonError::into_inner);
        logos.get(&id).and_then(Weak::upgrade).map(|logo| Bytes::from_owner(LogoInUse(logo)))
    }

    /// This logo, or the same one that another request has loaded meanwhile.
    fn share(&self, id: LogoId, png: Bytes) -> Bytes {
        let mut logos = self.logos.lock().unwrap_or_else(PoisonError::into_inner);
        logos.retain(|_, logo| logo.strong_count() > 0);
        let logo = logos.get(&id).and_then(Weak::upgrade).unwrap_or_else(|| Arc::new(png));
        logos.insert(id, Arc::downgrade(&logo));
        Bytes::from_owner(LogoInUse(logo))
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::net::Ipv6Addr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use foundation::error::Error;
    use uuid::Uuid;

    use super::*;

    /// The logo with this number, of the account with this number, and how many were loaded.
    async fn logo(responses: &LargeResponses, loaded: &AtomicUsize, number: u128, client: IpAddr) -> Result<Bytes> {
        let owner = (LogoId::from_uuid(Uuid::from_u128(number)), AccountId::from_uuid(Uuid::from_u128(number)));
        let load = async {
            loaded.fetch_add(1, Ordering::Relaxed);
            Ok(Some(vec![b'x'; 300_000]))
        };
        Ok(responses.logo(owner, client, load).await?.expect("it exists"))
    }

    /// The address of a client in a site of its own.
    fn client(site: usize) -> IpAddr {
        Ipv6Addr::from_bits((site as u128) << 80).into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_logo_is_in_memory_once_however_many_clients_do_not_read_it() -> Result<()> {
        let (responses, loaded) = (LargeResponses::new(), AtomicUsize::new(0));
        let mut unread = Vec::new();
        for number in 0..1_000 {
            unread.push(logo(&responses, &loaded, 1, client(number % 100)).await?);
        }
        assert_eq!(loaded.load(Ordering::Relaxed), 1);
        assert!(unread.iter().all(|logo| logo.len() == 300_000 && logo.as_ptr() == unread[0].as_ptr()));
        unread.clear();
        logo(&responses, &loaded, 1, client(1)).await?;
        assert_eq!(loaded.load(Ordering::Relaxed), 2, "it is kept no longer than it is read");
        let owner = (LogoId::from_uuid(Uuid::nil()), AccountId::from_uuid(Uuid::nil()));
        assert_eq!(responses.logo(owner, client(1), ready(Ok(None))).await?, None);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn responses_that_are_not_read_leave_others_to_other_networks_and_accounts() -> Result<()> {
        let (responses, loaded) = (LargeResponses::new(), AtomicUsize::new(0));
        let mut unread = Vec::new();
        for number in 0..OF_NETWORK as u128 {
            unread.push(logo(&responses, &loaded, number, client(1)).await?);
        }
        assert!(matches!(logo(&responses, &loaded, 100, client(1)).await, Err(Error::Busy(_))), "its share is used up");
        unread.push(logo(&responses, &loaded, 0, client(1)).await?);
        unread.push(logo(&responses, &loaded, 100, client(2)).await?);
        let (one, other) = (AccountId::from_uuid(Uuid::max()), AccountId::from_uuid(Uuid::from_u128(0)));
        for number in 0..OF_ACCOUNT {
            unread.push(responses.acquire(client(10 + number), one).await?.hold("a document"));
        }
        assert!(matches!(responses.acquire(client(50), one).await, Err(Error::Busy(_))), "the quota of the account");
        responses.acquire(client(50), other).await?;
        unread.clear();
        responses.acquire(client(1), one).await?;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn responses_that_are_not_read_by_eight_networks_of_a_site_leave_others_to_other_sites() -> Result<()> {
        let (responses, loaded, mut unread) = (LargeResponses::new(), AtomicUsize::new(0), Vec::new());
        for number in 0..AT_ONCE as u128 {
            let client = Ipv6Addr::from_bits((1_u128 << 80) | ((number % 8) << 64)).into();
            unread.extend(logo(&responses, &loaded, number, client).await);
        }
        assert_eq!(unread.len(), OF_SITE);
        logo(&responses, &loaded, 100, client(2)).await?;
        Ok(())
    }
}
