/** A person signed other content than that of the checkpoint from which a recovery would start. */
import { Command } from "commander";
import { expect, test } from "vitest";
import { addRecoveryStart } from "../../../../services/cli/commands/recovery/start.ts";
import type { Session } from "../../../../services/cli/runtime/session.ts";
import { EsignAdmin } from "../../../../shared/sdk/esign/esign-admin.ts";
import { esignBody } from "../../../harness/esign/signed-statement.ts";
import { create, openTestRecords, send } from "../../../harness/records/records.ts";

/** The signatures that a dry run shows beside a recovery point with this hash, or with its own. */
async function shownWith(hash?: string): Promise<unknown> {
  const records = await openTestRecords("lmdb");
  try {
    const { repository } = records;
    await create(repository);
    const body = await esignBody(repository, { task: "task-1" });
    await send(repository, "signature_add", body, { agent: "human=ada" });
    const { checkpoint: own } = await repository.latest("default", "task-1");
    const checkpoint = { ...own!, compliance: { ...own!.compliance, hash: hash ?? own!.compliance.hash } };
    const queries = {
      send: () => repository.esignatures.list("default", { task_id: "task-1", from_seq: 1, limit: 10 }),
    };
    const parts = { queries, tenant: "default" } as unknown as ConstructorParameters<typeof EsignAdmin>[0];
    const point = { checkpoint, offer: null, passed_over: [], owner: null, refused: null };
    const client = {
      admin: { esign: new EsignAdmin(parts), recoveryPoint: async () => point },
      getTask: async () => ({ task_id: "task-1", state: "interrupted", recovery: null }),
    };
    const shown: unknown[] = [];
    const session = {
      ...{ client: async () => client, deadline: {}, exitCode: 0 },
      show: async (data: unknown) => void shown.push(data),
    } as unknown as Session;
    const group = new Command();
    addRecoveryStart(
      group,
      (run) =>
        (...given) =>
          run(session, ...given),
    );
    await group.parseAsync(["start", "task-1", "--dry-run"], { from: "user" });
    return shown[0];
  } finally {
    await records.close();
  }
}

test("the dry run of a recovery compares the signed hash with that of the recovery point", async () => {
  expect(await shownWith()).toMatchObject({ electronic_signatures: [{ state: "valid" }] });
  expect(await shownWith("d".repeat(64))).toMatchObject({
    electronic_signatures: [{ state: "content_changed" }],
  });
});
