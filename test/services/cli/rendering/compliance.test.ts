/** What a person reads of signers, of the access log and of what is signed. */
import { expect, test } from "vitest";
import { signingPage } from "../../../../services/cli/rendering/esign/passkey-pages.ts";
import { renderSigners, signedTimeText } from "../../../../services/cli/rendering/esign/signatures.ts";
import { confirmationPage, statementLines } from "../../../../services/cli/rendering/esign/statement.ts";
import { renderAccess } from "../../../../services/cli/rendering/keys/access-log.ts";
import type { AccessPage } from "../../../../shared/protocol/access-log.ts";
import type { EsignStatement } from "../../../../shared/protocol/esign.ts";
import type { SignerRecord } from "../../../../shared/protocol/esign-signer.ts";
import { view } from "./view.ts";

const T = "2026-01-04T10:00:00.000Z";

test("what a person signs has its goal and the command that shows all of it, escaped in a page", () => {
  const statement: EsignStatement = {
    v: 1,
    subject: {
      ...{ tenant: "default", task: "auth", checkpoint_id: "0199a0c0", version: 2 },
      ...{ hash: "a".repeat(64), head: { seq: 7, hash: "b".repeat(64) } },
    },
    signer: { id: { issuer: "https://id.example", subject: "ada" }, printed_name: "Ada" },
    ...{ meaning: "approval", signed_at: T, zone: "Europe/London", policy: "c".repeat(64) },
  };
  const content = {
    ...{ goal: "Log in </table><b>\u202eOIDC", phase: "testing, progress 75%" },
    command: "npx fleet checkpoint show 0199a0c0 --version 2",
  };
  const lines = statementLines(statement, content);
  expect(lines).toContain("  Goal: Log in </table><b>\ufffdOIDC");
  expect(lines).toContain("  Full content: npx fleet checkpoint show 0199a0c0 --version 2");
  expect(statementLines(statement, { ...content, goal: undefined })).toContain(
    "  Goal: the checkpoint states none",
  );
  expect(statementLines(statement, { ...content, goal: "x".repeat(501) })).toContain(
    `  Goal: ${"x".repeat(500)} … (shortened)`,
  );
  for (const page of [
    confirmationPage(statement, content, "https://id.example/login"),
    signingPage(statement, content, { publicKey: {} })("nonce"),
  ]) {
    expect(page).toContain("Log in &lt;/table&gt;&lt;b&gt;\ufffdOIDC");
    expect(page).toContain("checkpoint show 0199a0c0 --version 2");
  }
});

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
