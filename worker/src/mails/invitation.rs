//! The e-mail of an invitation to the portal.

use domain::users::{INVITATION_LIFETIME, Invitation, Role};
use foundation::crypto::Secret;
use foundation::time::Timestamp;
use mail::Email;
use texts::Language;

use super::line;

/// Writes the e-mail with this `Message-ID`, in the language of the inviting user.
pub(super) fn write(invitation: Invitation, link: &Secret<String>, id: String, now: Timestamp) -> Email {
    let language = invitation.language.as_deref().and_then(Language::of_tag).unwrap_or(Language::En);
    let (merchant, texts) = (line(&invitation.merchant), language.texts());
    let role = match invitation.role {
        Role::Owner => texts.role_owner(),
        Role::Developer => texts.role_developer(),
        Role::Support => texts.role_support(),
        Role::Viewer => texts.role_viewer(),
    };
    let days = (INVITATION_LIFETIME.as_secs() / 86_400).to_string();
    let paragraphs = [
        texts.mail_invitation_intro(&merchant, role),
        link.expose().clone(),
        texts.mail_invitation_once(days, &merchant),
    ];
    Email {
        id,
        to: invitation.email,
        subject: texts.mail_invitation_subject(&merchant),
        from_name: Some(merchant),
        reply_to: None,
        text: paragraphs.join("\r\n\r\n") + "\r\n",
        html: None,
        unsubscribe: None,
        date: now,
    }
}
