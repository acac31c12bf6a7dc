// A graph of three steps. Each notes its run in a file; the second one waits for its death if the file of the last argument does not exist.

import { appendFileSync, existsSync } from "node:fs";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { FleetSaver } from "../../../../shared/sdk/langgraph/saver.ts";
import { connect } from "../../../../shared/sdk/sdk.ts";

const [thread = "", log = "", go = ""] = process.argv.slice(2);
const State = Annotation.Root({
  done: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

const step = (name: string) => async () => {
  appendFileSync(log, `${name}\n`);
  while (name === "two" && !existsSync(go)) await new Promise((resolve) => setTimeout(resolve, 20));
  return { done: [name] };
};

const fleet = await connect({ fallback: "none" });
const graph = new StateGraph(State)
  .addNode("one", step("one"))
  .addNode("two", step("two"))
  .addNode("three", step("three"))
  .addEdge(START, "one")
  .addEdge("one", "two")
  .addEdge("two", "three")
  .addEdge("three", END)
  .compile({ checkpointer: new FleetSaver(fleet, { takeOver: true }) as never });
const config = { configurable: { thread_id: thread }, durability: "sync" as const };
const isNew = (await graph.getState(config)).next.length === 0;
const { done } = await graph.invoke(isNew ? {} : null, config);
process.stdout.write(`${JSON.stringify(done)}\n`);
await fleet.close();
