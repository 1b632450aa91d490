ALTER TABLE users VALIDATE CONSTRAINT users_passkey_handle;
