// `fleet checkpoints`: reads checkpoints, with one file for each query.

import type { Command } from "commander";
import type { ActionFactory } from "../../runtime/action.ts";
import { addHistory } from "./history.ts";
import { addList } from "./list.ts";
import { addSearch } from "./search.ts";
import { addShow } from "./show.ts";

export function addCheckpoints(program: Command, action: ActionFactory): void {
  const group = program.command("checkpoints").description("List, show and search checkpoints.");
  addList(group, action);
  addShow(group, action);
  addHistory(group, action);
  addSearch(group, action);
}
