// The options for the keys of encrypted files. Each key opens the file alone.

import { Option } from "commander";

const FORMS = "file:/path, env:NAME, or a root key as in FLEET_ENCRYPTION_KEY; repeatable";

export const encryptOption = (): Option =>
  new Option("--encrypt-with <key>", `encrypt the file for this key: x25519:PUBLIC, ${FORMS}`).argParser(
    named,
  );

export const decryptOption = (): Option =>
  new Option("--decrypt-with <key>", `a key that opens an encrypted file: ${FORMS}`).argParser(named);

const named = (value: string, before: readonly string[] | undefined): readonly string[] => [
  ...(before ?? []),
  value,
];
