// `fleet checkpoints`: reading what was written. One file for each way of asking.

import type { Command } from "commander";
import type { Acting } from "../../runtime/action.ts";
import { addHistory } from "./history.ts";
import { addList } from "./list.ts";
import { addSearch } from "./search.ts";
import { addShow } from "./show.ts";

export function addCheckpoints(program: Command, acting: Acting): void {
  const group = program.command("checkpoints").description("List, show, follow back and search checkpoints.");
  addList(group, acting);
  addShow(group, acting);
  addHistory(group, acting);
  addSearch(group, acting);
}
