ALTER TABLE users VALIDATE CONSTRAINT users_language;
ALTER TABLE user_invitations VALIDATE CONSTRAINT user_invitations_language;
