-- The e-mail of an invitation has the invitation's id. Until it has ended, it has the link, sealed with ENCRYPTION_KEY: of the
-- token in the link, the invitation has only a hash.
ALTER TABLE mails ADD COLUMN link bytea;
-- upgrade: the constraint below accepts everything that the previous version writes.
ALTER TABLE mails DROP CONSTRAINT mails_kind_check;
ALTER TABLE mails ADD CONSTRAINT mails_kind CHECK (kind IN ('invoice', 'receipt', 'collection_failed', 'invitation')) NOT VALID;
ALTER TABLE mails ADD CONSTRAINT mails_link CHECK ((link IS NOT NULL) = (kind = 'invitation' AND outcome IS NULL)) NOT VALID;
