// The option for the ids of signing keys that a verifier trusts.

import { InvalidArgumentError, Option } from "commander";

export const trustedKeyOption = (): Option =>
  new Option(
    "--key <id>",
    "the whole id of a key, as you keep it at another place; only its signatures count (repeatable)",
  ).argParser(keyIds);

export const revokedKeyOption = (): Option =>
  new Option("--revoked <id>", "the whole id of a key that you know as revoked (repeatable)").argParser(
    keyIds,
  );

function keyIds(value: string, before: readonly string[] | undefined): readonly string[] {
  if (!/^[0-9a-f]{64}$/i.test(value))
    throw new InvalidArgumentError("It has 64 hexadecimal digits, as `keys list --json` prints it.");
  return [...(before ?? []), value.toLowerCase()];
}
