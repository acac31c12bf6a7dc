/** The first act: an agent is killed at its work, and another process goes on. */
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { type Said, startAgent } from "../process.ts";
import type { Timeline } from "../timeline.ts";
import { Witness } from "../witness.ts";

const PROGRAM = "deploy/demo/kill/agent.ts";
const KILL_AFTER = 4;

export interface Killing {
  readonly witness: Witness;
  /** The item that the first agent was working on when it was killed. */
  readonly killedAt: string | null;
}

export async function playKill(
  timeline: Timeline,
  client: FleetClient,
  env: NodeJS.ProcessEnv,
): Promise<Killing> {
  const witness = new Witness(`survey-${Date.now().toString(36)}`);
  const { taskId } = witness;
  let killedAt: string | null = null;
  await witness.watch(client);

  timeline.heading(`Task ${taskId}: survey the code of this repository`);
  const heard = (said: Said) => {
    witness.said.push(said);
    tellSaid(timeline, said);
  };
  const first = startAgent(PROGRAM, [taskId, "surveyor-a"], env, (said) => {
    heard(said);
    if (
      said.did === "working" &&
      witness.said.filter(({ did }) => did === "checkpoint").length === KILL_AFTER
    ) {
      killedAt = String(said.item);
      first.child.kill("SIGKILL");
    }
  });
  timeline.say("demo", `surveyor-a ended: ${await first.ended}, while working on ${killedAt}`, "bad");
  const second = startAgent(PROGRAM, [taskId, "surveyor-b"], env, heard);
  const how = await second.ended;
  timeline.say("demo", `surveyor-b ended: exit code ${how}`, how === 0 ? "good" : "bad");
  return { witness, killedAt };
}

function tellSaid(timeline: Timeline, said: Said): void {
  const who = said.agent.replace("surveyor", "agent");
  switch (said.did) {
    case "began":
      timeline.say(who, `begins: ${said.folders} folders to survey`);
      break;
    case "resumed":
      timeline.say(
        who,
        `resumes from ${said.from}, written by ${said.by}: ${said.done} done, next ${said.next}`,
        "note",
      );
      break;
    case "checkpoint":
      timeline.say(who, `checkpoint ${said.id}, ${said.done} done`, "good", said.ms as number);
      break;
    case "finished":
      timeline.say(who, `finished and finalized ${said.id}`, "good");
      break;
    default:
      timeline.say(who, `works on ${said.item}`);
  }
}
