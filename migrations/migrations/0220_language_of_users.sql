-- The code of the language in which a user sees the portal; NULL is that of the browser.
ALTER TABLE users ADD COLUMN language text;
ALTER TABLE users ADD CONSTRAINT users_language CHECK (language ~ '^[a-z]{2}$') NOT VALID;

-- That in which the inviting user saw the portal, for the e-mail; NULL of those that the previous version has made.
ALTER TABLE user_invitations ADD COLUMN language text;
ALTER TABLE user_invitations ADD CONSTRAINT user_invitations_language CHECK (language ~ '^[a-z]{2}$') NOT VALID;
