// A taker of one offer that dies after a given step: `received`, `thinking`, `acknowledged` (but the message is not), `begun` (after its
// first checkpoint), or none. It prints one line of JSON for each step.
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type ReceivedOffer } from "../../../../shared/sdk/sdk.ts";

const [url = "", agentId = "", agentType = "", dies = ""] = process.argv.slice(2);

/** Resolves when the line has left the process. */
function reached(step: string, facts: object = {}): Promise<void> {
  return new Promise((resolve) => {
    process.stdout.write(`${JSON.stringify({ step, ...facts })}\n`, () => {
      if (step === dies) process.kill(process.pid, "SIGKILL");
      resolve();
    });
  });
}

async function take(offer: ReceivedOffer): Promise<void> {
  await reached("received");
  await sleep(300);
  await reached("thinking");
  const { task, fence } = await fleet.acknowledgeHandoff(offer.data);
  await reached("acknowledged", { fence });
  offer.settle();
  const { checkpointId } = await task.checkpoint({
    metadata: { agent_type: agentType, parent_ids: [offer.data.checkpoint.id] },
    execution_state: { phase: "implementing" },
  });
  await reached("begun", { checkpointId });
}

const fleet = await connect({ url, agentId, fallback: "none" });
await fleet.onOffer(agentType, async (offer) => {
  try {
    await take(offer);
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "CONFLICT") offer.settle();
    await reached("refused", { code });
  }
});
await reached("ready");
