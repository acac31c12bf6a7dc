// What lists show of revoked keys, and of the passkeys of revoked people.

import { expect, test } from "vitest";
import { renderSigners } from "../../../../services/cli/rendering/esign/signatures.ts";
import { revocationWarning } from "../../../../services/cli/rendering/keys/revocation-warning.ts";
import { renderSigningKeys } from "../../../../services/cli/rendering/keys/signing-keys.ts";
import type { SignerRecord } from "../../../../shared/protocol/esign-signer.ts";
import { view } from "./view.ts";

const AT = "2026-11-26T10:00:00.000Z";

test("a revoked key has the time and the reason of its revocation, also on a narrow terminal", () => {
  const key = {
    ...{ key_id: "ab".repeat(32), public_key: "", purpose: "commits", owner: "writer" },
    ...{ not_before: AT, not_after: null, replaces: null, rotation_requested_at: null },
    algorithm: "ed25519",
  } as const;
  const shown = (changes: { readonly revoked_at: string | null; readonly revoked_reason: "lost" | null }) =>
    renderSigningKeys([{ ...key, ...changes }], { ...view, width: 60 });
  expect(shown({ revoked_at: AT, revoked_reason: "lost" })).toContain(
    `abababababababab, signatures after ${AT} (lost)`,
  );
  expect(shown({ revoked_at: null, revoked_reason: null })).not.toContain("signatures after");
});

test("a revocation does not move the end of a retired key, unless it is earlier", () => {
  const key = {
    ...{ key_id: "ab".repeat(32), public_key: "", purpose: "commits", owner: "writer" },
    ...{ not_before: "2026-11-25T10:00:00.000Z", not_after: AT, replaces: null },
    rotation_requested_at: null,
    revoked_reason: "compromised",
    algorithm: "ed25519",
  } as const;
  const rowOf = (revoked_at: string) => renderSigningKeys([{ ...key, revoked_at }], view).split("\n")[1];
  expect(rowOf("2026-11-26T11:00:00.000Z")).toMatch(/2026-11-26T10:00:00\.000Z *$/);
  expect(rowOf("2026-11-26T09:00:00.000Z")).toMatch(/2026-11-26T09:00:00\.000Z *$/);
});

test("a second revocation says what it has not changed, also where a service of an earlier version answers", () => {
  const key_id = "ab".repeat(32);
  const EARLIER = "2026-11-25T10:00:00.000Z";
  const lost = { key_id, revoked_at: AT, revoked_reason: "lost" } as const;
  const compromised = { ...lost, revoked_reason: "compromised" } as const;
  const replaced = { ...lost, revoked_reason: "replaced" } as const;
  const codeOf = (
    ...[before, reason, after]: [typeof lost | typeof compromised, "lost" | "compromised", object]
  ) => revocationWarning({ before, reason, after: { ...lost, ...after } })?.code;
  expect(codeOf(lost, "compromised", compromised)).toBeUndefined();
  expect(codeOf(lost, "lost", lost)).toBe("key_unchanged");
  expect(codeOf(compromised, "lost", compromised)).toBe("key_unchanged");
  expect(codeOf(lost, "lost", { ...compromised, revoked_at: EARLIER })).toBe("key_reason_kept");
  // An earlier version records an earlier time alone, and then the reason that is named.
  expect(codeOf(lost, "compromised", lost)).toBe("key_reason_weaker");
  expect(codeOf(compromised, "lost", { revoked_at: EARLIER })).toBe("key_reason_weaker");
  expect(revocationWarning({ before: replaced, reason: "lost", after: replaced })?.text).toContain(
    "--reason lost",
  );
});

test("the passkeys of a revoked person are not active", () => {
  const passkey = {
    ...{ passkey_id: "cd".repeat(32), printed_name: "Ada Lovelace", enrolled_by: "cli" },
    ...{ last_used_at: AT, revoked_at: null, revoked_reason: null },
  };
  const person = {
    ...{ issuer: "https://login.example", subject: "ada", printed_name: "Ada Lovelace" },
    ...{ last_signed_at: AT, revoked_at: null, revoked_reason: null, passkeys: [passkey] },
  };
  const stateIn = (changes: object) =>
    renderSigners([{ ...person, ...changes } as unknown as SignerRecord], view)
      .split("\n")
      .at(-1);
  expect(stateIn({})).toMatch(/ active$/);
  const left = { revoked_at: AT, revoked_reason: "left" };
  expect(stateIn(left)).toMatch(/ revoked with the person \(left\)$/);
  const lost = { ...passkey, revoked_at: AT, revoked_reason: "lost" };
  expect(stateIn({ ...left, passkeys: [lost] })).toMatch(/ revoked \(lost\)$/);
});
