/** Checkpoints over the HTTP API. */
import { uuidv7 } from "uuidv7";
import { expect } from "vitest";
import type { RestClient } from "../../harness/rest-client.ts";

type Json = Record<string, unknown>;

export const REST_STATE = { phase: "implementing", pending_items: ["write the tests"] };

/** Writes a checkpoint; a loaded fleet may queue it or ask for a retry first, and repeats the same write. */
export async function writeOverRest(by: RestClient, task: string, more: Json = {}): Promise<Json> {
  const body = { task_id: task, agent_type: "implementation", execution_state: REST_STATE, ...more };
  const headers = { "idempotency-key": uuidv7() };
  let answer = await by.post("/checkpoints", body, headers);
  await expect
    .poll(async () => {
      if (answer.status !== 201) answer = await by.post("/checkpoints", body, headers);
      return answer.status;
    })
    .toBe(201);
  return answer.body;
}
