// What lists show of revoked keys, and of the passkeys of revoked people.

import { expect, test } from "vitest";
import { renderSigners } from "../../../../services/cli/rendering/esign/signatures.ts";
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
