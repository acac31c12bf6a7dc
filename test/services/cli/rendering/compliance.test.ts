/** What a person reads of signers, of the access log and of what is signed. */
import { expect, test } from "vitest";
import { renderSigners, signedTimeText } from "../../../../services/cli/rendering/esign/signatures.ts";
import { renderAccess } from "../../../../services/cli/rendering/keys/access-log.ts";
import type { AccessPage } from "../../../../shared/protocol/access-log.ts";
import type { SignerRecord } from "../../../../shared/protocol/esign-signer.ts";
import { view } from "./view.ts";

const T = "2026-01-04T10:00:00.000Z";

test("a time in UTC is shown once, and one in another zone in both", () => {
  expect(signedTimeText(T, "UTC")).toBe(`${T} (UTC)`);
  expect(signedTimeText(T, "Asia/Tokyo")).toBe(`2026-01-04 19:00:00 Asia/Tokyo (${T})`);
});

test("the person that has enrolled a passkey is named in words", () => {
  const passkey = { passkey_id: "9f86d081", printed_name: "Ada", enrolled_by: "human=ada", last_used_at: T };
  const signer = {
    ...{ printed_name: "Ada", subject: "ada", issuer: "https://id.example", last_signed_at: T },
    ...{ revoked_at: null, revoked_reason: null },
    passkeys: [{ ...passkey, revoked_at: null, revoked_reason: null }],
  };
  expect(renderSigners([signer as unknown as SignerRecord], view)).toMatch(/9f86d081.*ada \(person\)/);
});

test("the access log of a task has its title, counts records, and calls what does not exist not found", () => {
  const by = { at: T, actor: { id: "human=ada", type: "human" }, block: 1 };
  const entries = [
    { ...by, op: "query.history", outcome: "ok", task_id: "auth", items: 1 },
    { ...by, op: "query.mission", outcome: "failed", reason: "NOT_FOUND", task_id: "auth" },
    { ...by, op: "query.get", outcome: "failed", reason: "CORRUPT", task_id: "auth" },
  ] as unknown as AccessPage["entries"];
  const shown = renderAccess({ task: "auth", entries, mode: "batched", next: undefined }, view);
  expect(shown.split("\n")[0]).toBe("Access log of task auth");
  expect(shown).toMatch(/query\.history +ok +1 record of auth/);
  expect(shown).toMatch(/query\.mission +not found +auth/);
  expect(shown).toMatch(/query\.get +failed: CORRUPT +auth/);
  const all = renderAccess({ task: undefined, entries: [], mode: "batched", next: undefined }, view);
  expect(all).toContain("Access log of the tenant");
});
