// `fleet checkpoints`: reading what was written. One file for each way of asking.

import type { Command } from "commander";
import type { ActionFactory } from "../../runtime/action.ts";
import { addHistory } from "./history.ts";
import { addList } from "./list.ts";
import { addSearch } from "./search.ts";
import { addShow } from "./show.ts";

export function addCheckpoints(program: Command, action: ActionFactory): void {
  const group = program.command("checkpoints").description("List, show, follow back and search checkpoints.");
  addList(group, action);
  addShow(group, action);
  addHistory(group, action);
  addSearch(group, action);
}
