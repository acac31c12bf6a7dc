/** The page of a bundle shows the electronic signatures that verify, and of the others only that they do not. */
import { expect, test } from "vitest";
import { canonicalText } from "../../../shared/integrity/canonical.ts";
import { proofHash } from "../../../shared/integrity/esign/proof.ts";
import { statementHash } from "../../../shared/integrity/esign/statement.ts";
import { ESIGN_PAYLOAD_TYPE, type EsignStatement } from "../../../shared/protocol/esign.ts";
import type { ExportLine, ExportLineOf } from "../../../shared/protocol/export-lines.ts";
import { reportPart, reportStart } from "../../../shared/transfer/bundle/bundle-report.ts";
import { PROVIDER, signedBody } from "../../harness/esign/signed-statement.ts";

const statement: EsignStatement = {
  v: 1,
  subject: {
    ...{ tenant: "default", task: "auth", checkpoint_id: "0199a0c0-0000-7000-8000-000000000001" },
    ...{ version: 2, hash: "a".repeat(64), head: { seq: 7, hash: "b".repeat(64) } },
  },
  signer: { id: { issuer: PROVIDER, subject: "ada" }, printed_name: "Ada <b>Lovelace</b>" },
  meaning: "approval",
  signed_at: "2026-11-26T13:00:00.000Z",
  zone: "Europe/London",
  policy: "c".repeat(64),
};
const { payload, proof } = await signedBody(statement);
const { tenant, task, checkpoint_id, version, hash } = statement.subject;
const facts = {
  ...{ op: "signature_add", at: "2026-11-26T13:00:05.000Z", actor: { id: "human=ada", type: "human" } },
  ...{ tenant, task, seq: 8, checkpoint_id, version, old_hash: hash, new_hash: null, meaning: "approval" },
  ...{ signer_issuer: PROVIDER, signer_subject: "ada", proof_hash: proofHash(proof) },
  statement_hash: statementHash(Buffer.from(payload, "base64")),
};
const esignature = { payload_type: ESIGN_PAYLOAD_TYPE, payload, proof };
const line = (changes: object = {}): ExportLineOf<"audit"> => ({
  ...{ kind: "audit", seq: 8, entry: canonicalText(facts), esignature, ...changes },
});

test("the page names the keys, and those that are revoked with time and reason", () => {
  const [key, stolen] = ["1".repeat(64), "2".repeat(64)];
  const page = reportStart({
    ...{ tenant, fleet: null, exported_at: facts.at, by: "human=ada", tool: "x", keys: [key, stolen] },
    ...{ logSize: null, anchors: [], counts: {}, files: [] },
    revoked: [{ key_id: stolen, revoked_at: "2026-11-26T13:00:00.000Z", reason: "compromised" }],
  });
  expect(page).toContain(`<td>${key}</td>`);
  expect(page).toContain(`<td>${stolen}, REVOKED at 2026-11-26T13:00:00.000Z (compromised)</td>`);
  expect(page).toContain(`--key ${key} --key ${stolen} --revoked ${stolen}`);
});

test("a signature that verifies is shown with name, meaning and time, as text", () => {
  const text = reportPart(line());
  expect(text).toContain("<b>Electronic signature</b> of Ada &lt;b&gt;Lovelace&lt;/b&gt; (ada of");
  expect(text).toContain("approval, 2026-11-26T13:00:00.000Z (Europe/London)");
});

test("a signature that does not verify, or is lost, is shown without what it states", () => {
  const moved = canonicalText({ ...facts, version: 3 });
  for (const changes of [
    { entry: moved },
    { esignature: { ...esignature, payload: "e30=" } },
    { esignature: undefined },
  ]) {
    const text = reportPart(line(changes));
    expect(text).toContain("An electronic signature does not verify: ");
    expect(text).not.toContain("Lovelace");
  }
  const other = canonicalText({ ...facts, op: "create" });
  expect(reportPart(line({ entry: other, esignature: undefined }))).not.toContain("lectronic signature");
});

test("placing and releasing a hold differ, with name, reason and case", () => {
  const entry = (changes: object): string =>
    reportPart(line({ entry: canonicalText({ ...facts, ...changes }), esignature: undefined }));
  const hold = { op: "hold", reason: "litigation", case: "C-12/2026" };
  const placed = entry({ ...hold, hold: "smith", release: null });
  expect(placed).toContain("<td>hold placed: smith</td><td>litigation, case C-12/2026</td>");
  const released = entry({ ...hold, hold: null, release: "<b>", reason: "settled", case: null });
  expect(released).toContain("<td>hold released: &lt;b&gt;</td><td>settled</td>");
  expect(entry({ op: "retain", retention_policy: "audit_7y" })).toContain("<td>retain: audit_7y</td>");
});

test("the page of a task has times, an owner, numbers with nouns, and the command for the content", () => {
  const metadata = {
    ...{ checkpoint_id, version: 1, agent_id: "human=ada", agent_type: "implementation" },
    ...{ timestamp: "2026-11-26T12:00:00.000Z", committed_at: "2026-11-26T12:00:01.000Z" },
  };
  const content = { metadata, execution_state: { phase: "implementing" } };
  const version = { kind: "checkpoint", hash, checkpoint: content } as unknown as ExportLineOf<"checkpoint">;
  expect(reportPart(version)).toContain(
    "made 2026-11-26T12:00:00.000Z, committed 2026-11-26T12:00:01.000Z (UTC), phase implementing",
  );
  const head = { task_id: "auth", state: "active", phase: "testing", owner: null, audit_seq: 1 };
  const begin = { kind: "task", task: head } as unknown as ExportLineOf<"task">;
  expect(reportPart(begin)).toContain("<th>Owner</th><td>none</td>");
  const end = { kind: "task_end", entries: 1, versions: 1, handoffs: 0, digest: hash };
  expect(reportPart(end as unknown as ExportLineOf<"task_end">)).toContain("1 entry, 1 version, 0 handoffs.");
  const start = reportStart({
    ...{ tenant: "default", fleet: null, exported_at: "2026-11-26T13:00:00.000Z", by: "ada", tool: "1" },
    ...{
      keys: [],
      revoked: [],
      logSize: 1,
      anchors: [],
      files: [],
      counts: { access_statements: 2, key_changes: 3 },
    },
  });
  expect(start).toContain("<th>Changes of the signing keys</th><td>3</td>");
  expect(start).not.toMatch(/access_statements|key_changes/);
  expect(start).toContain("tar -xOf BUNDLE.tar export.jsonl | grep");
});

test("a task whose content was shredded is shown with the persons, and another one without", () => {
  const head = { task_id: "auth", state: "active", phase: null, owner: null, audit_seq: 9, audit_hash: hash };
  const shred = {
    ...{ requested_by: "human=olga", approved_by: "human=<pavel>", approved_at: "2026-11-26T13:00:00.000Z" },
    ended_at: "2026-11-26T13:00:09.000Z",
  };
  const textOf = (task: object) => reportPart({ kind: "task", task } as ExportLine);
  expect(textOf({ ...head, shred: { ...shred, state: "shredded" } })).toContain(
    "<tr><th>Shredding</th><td>all content was removed, 2026-11-26T13:00:09.000Z: requested by olga (person), approved by human=&lt;pavel&gt; at",
  );
  expect(textOf({ ...head, shred: { ...shred, state: "approved" } })).toContain("being removed");
  for (const plain of [head, { ...head, shred: { ...shred, state: "requested" } }])
    expect(textOf(plain)).not.toContain("Shredding");
});
