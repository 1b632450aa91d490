-- Whether a mail server may have accepted the e-mail in an earlier attempt, without saying so. It is then sent once more.
ALTER TABLE mails ADD COLUMN unconfirmed boolean NOT NULL DEFAULT false;
