/** 简体中文：后台 Task。 */
export const tasks = {
  "task.loading": "正在读取…",
  "task.none": "还没有 Task。打开某个运行的详情，在其菜单中选择“检查 *.py 文件”即可启动。",
  "task.result": "结果",
  "task.run_gone": "此运行最初所在的会话已被删除，请从其他运行启动检查。",
  "task.show": "查看 Task",
  "task.show_all": { other: "显示全部 {n} 个 Task" },
  "task.show_more": "查看 Task…",
  "task.start": "检查 *.py 文件",
  "task.start_note": "在后台检查语法错误；不执行也不修改任何文件",
  "task.started": "已受理对 *.py 文件的检查。",
  "task.stop": "停止",
  "task.stop_of": "停止：{kind}，{time}",
  "task.title": "Task",
  "task.told": "*.py 文件检查：{state}。",
  "task.too_many": "此 Agent 已有四个活动的 Task，达到同时上限。请停止一个，或等一个结束。",

  "task_failed.missing": "未运行，没有 *.py 文件",
  "task_failed.other": "失败",
  "task_failed.output": "已终止，输出过多",
  "task_failed.too_many": "未运行，*.py 文件过多",
  "task_failed.wall_clock": "已终止，用时过长",

  "task_found.faults": "发现语法错误",
  "task_found.none": "没有语法错误",

  "task_kind.delegate": "委派",
  "task_kind.other": "Task",
  "task_kind.runtime-compile": "检查 *.py 文件",

  "task_state.cancelled": "已停止",
  "task_state.completed": "已完成",
  "task_state.interrupted": "已中断，服务器曾停止",
  "task_state.other": "未知",
  "task_state.queued": "等待运行",
  "task_state.running": "正在运行",
};
