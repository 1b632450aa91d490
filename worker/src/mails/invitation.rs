//! The e-mail of an invitation to the portal. It is in English, as the portal is.

use domain::users::{INVITATION_LIFETIME, Invitation};
use foundation::crypto::Secret;
use foundation::time::Timestamp;
use mail::Email;

use super::line;

/// Writes the e-mail with this `Message-ID`.
pub(super) fn write(invitation: Invitation, link: &Secret<String>, id: String, now: Timestamp) -> Email {
    let (merchant, role) = (line(&invitation.merchant), invitation.role.name());
    let days = INVITATION_LIFETIME.as_secs() / 86_400;
    let text = format!(
        "{merchant} invites you as {role}. Please choose a password on this page:\n\n{}\n\n\
         The link works once, for {days} days. If you do not know {merchant}, you can ignore this e-mail.\n",
        link.expose(),
    );
    Email {
        id,
        to: invitation.email,
        subject: format!("Invitation from {merchant}"),
        from_name: Some(merchant),
        reply_to: None,
        text: text.replace('\n', "\r\n"),
        html: None,
        unsubscribe: None,
        date: now,
    }
}
