// Handoffs with hostile input: text that grows in an offer, and messages that are no events. Each handoff ends, and no other handoff
// or alert waits for it.

import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { Offer } from "../../../shared/protocol/offer.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { TestCluster } from "../../harness/processes/cluster.ts";
import { input } from "../../harness/records/records.ts";

let cluster: TestCluster;
const offers: Offer[] = [];
beforeAll(async () => {
  cluster = await TestCluster.open();
  const generous = { deadline_ms: 60_000, prompt_tokens: 20_000 };
  await cluster.startCoordinator({
    policy: {
      defaults: { offer: generous },
      tenants: {
        default: { agent_types: { architecture: { offer: { deadline_ms: 1_000, max_attempts: 1 } } } },
      },
    },
  });
  await cluster.onOffer("qa", async (offer) => void offers.push(offer));
}, 120_000);
afterAll(() => cluster?.close());

test.each([
  ["backslashes", "\\"],
  ["quotation marks", '"'],
  ["characters of three bytes", "漢"],
])(
  "%s, which need more bytes in an offer than in a prompt, are offered",
  async (name, character) => {
    const task = `text-${name.replaceAll(" ", "-")}`;
    for (const items of [10, 15, 16, 17, 30]) {
      const checkpoint = input({
        phase: "handoff",
        pending_items: Array(items).fill(character.repeat(2_000)),
      });
      const handoff = { to_agent_type: "qa", reason: "\u0001".repeat(LIMITS.handoff_reason_chars_max) };
      const { handoff_id } = await cluster.write(task, {}, { checkpoint, handoff });
      await cluster.until(handoff_id as string, "offered");
      await expect.poll(() => offers.some(({ data }) => data.handoff_id === handoff_id)).toBe(true);
    }
    for (const { data } of offers) {
      expect(Buffer.byteLength(JSON.stringify(data.prompt))).toBeLessThanOrEqual(LIMITS.prompt_bytes_max);
    }
  },
  120_000,
);

test("messages that are no handoff events delay no alert and no handoff", async () => {
  const event = (type: string, task: string, body: string) =>
    cluster.bus.publishDurable(
      SUBJECTS.event("default", type, task),
      { body: Buffer.from(body) },
      { messageId: uuidv7(), timeoutMs: 5_000 },
    );
  const forged = (type: string, data: object, changes: object = {}): string =>
    JSON.stringify({
      specversion: "1.0",
      id: uuidv7(),
      source: "fleet",
      type,
      subject: "forged",
      time: "not a time",
      datacontenttype: "application/json",
      tenant: "default",
      sequence: 1,
      data,
      ...changes,
    });
  const unknown = {
    handoffId: uuidv7(),
    fromCheckpoint: uuidv7(),
    agentId: "a",
    fence: 1,
    previousOwner: null,
  };
  const failure = { handoffId: uuidv7(), state: "escalated", reason: "no_agent" };
  for (let n = 0; n < 4; n += 1) {
    await event("HANDOFF_FAILED", "rubbish", "rubbish");
    await event("HANDOFF_FAILED", "rubbish", forged("HANDOFF_FAILED", failure, { tenant: "a.b" }));
    await event("HANDOFF_FAILED", "rubbish", forged("HANDOFF_FAILED", {}));
    await event("HANDOFF_ACKNOWLEDGED", "unknown", forged("HANDOFF_ACKNOWLEDGED", unknown));
  }
  for (let n = 0; n < 70; n += 1) await event("AGENT_HANDOFF", "rubbish", "null");

  const id = await cluster.handOff("untaken", { to_agent_type: "architecture" });
  await cluster.until(id, "escalated");
  expect(await cluster.alerts("untaken", 1)).toMatchObject([{ severity: "critical" }]);
}, 120_000);
