-- no-transaction
-- For re-encryption, which would read the e-mails of a month to find a few.
CREATE INDEX CONCURRENTLY IF NOT EXISTS mails_link ON mails (id) WHERE link IS NOT NULL;
