/** A blocked task whose alert has two texts: the details of the agent, and the note of the operator. */
import { expect } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { exitReport } from "../../harness/records/exit-reports.ts";
import { input } from "../../harness/records/records.ts";

/** A busy machine takes seconds for each call. */
export const CALL = { deadlineMs: 60_000, fallback: "none" } as const;
export const POLL = { timeout: 120_000 };
export const TEXT = "marmalade";

/** The alerts of the task `blocked`. */
export const alertsOf = async ({ admin }: FleetClient) =>
  (await admin.listAlerts({ taskId: "blocked", ...CALL })).alerts;

/** Returns the alert, which the operator has acknowledged. `agent`: the client of `coder-1`. */
export async function blockTask(agent: FleetClient, operator: FleetClient) {
  const blocked = await agent.takeTask("blocked", CALL);
  await blocked.checkpoint(input({ goal: TEXT }), CALL);
  const failed = { agent_id: "coder-1", task_id: "blocked", fence: blocked.fence! } as const;
  await agent.reportExit(exitReport({ ...failed, class: "unrecoverable", details: TEXT }));
  await expect.poll(async () => (await alertsOf(operator)).length, POLL).toBe(1);
  const [{ alert }] = (await alertsOf(operator)) as [Awaited<ReturnType<typeof alertsOf>>[number]];
  await operator.admin.acknowledgeAlert(alert.id, { note: TEXT, deadlineMs: 60_000 });
  return alert;
}
