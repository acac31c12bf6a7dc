/**
 * The smallest orchestrator: accepts the offers for an agent type and starts a process for each, at most four at a time. A process gets
 * the prompt on its standard input, and task and fence as its last arguments. For other languages, see "Offers" in
 * shared/protocol/API.md.
 * Usage: node deploy/examples/orchestrator.ts <agent type> <program> [argument…]
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, type ReceivedOffer } from "../../shared/sdk/sdk.ts";

const [type = "", program = "", ...args] = process.argv.slice(2);
const fleet = await connect({ agentId: `orchestrator-${type}`, role: "orchestrator" });

async function start(offer: ReceivedOffer): Promise<void> {
  // The orchestrator then owns the task. If this throws, another agent owns it, and the offer is void.
  const { task, fence } = await offer.acknowledge();
  const child = spawn(program, [...args, task.id, String(fence)], {
    env: { ...process.env, FLEET_AGENT_ID: fleet.agentId },
    stdio: ["pipe", "inherit", "inherit"],
  });
  child.stdin.on("error", () => {}); // the program need not read its prompt
  child.stdin.end(offer.data.prompt);
  const [code, signal] = (await once(child, "exit")) as [number | null, string | null];
  console.log(JSON.stringify({ task: task.id, fence, code, signal }));
}

const stop = await fleet.onOffer(type, start, {
  concurrency: 4,
  onVoid: ({ task_id }, { code }) => console.log(JSON.stringify({ task: task_id, void: code })),
});
console.log(JSON.stringify({ ready: type }));
await Promise.race([once(process, "SIGTERM"), once(process, "SIGINT")]);
await stop();
await fleet.close();
