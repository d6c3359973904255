"""Every hard bound, by room: `NAME = value  # unit: reason`. docs/limits.md shows this list; nothing else holds such a number."""

# protocol
IPC_VERSION = 2  # version: of the frames between host and Worker
IPC_FRAME_BYTES = 64 * 1024  # bytes: one IPC frame with its line feed
IPC_TEXT_BYTES = 16 * 1024  # bytes: text in one IPC frame; JSON escaping may grow it up to six times within the frame bound for ordinary text
IPC_TOTAL_BYTES = 2 * 1024 * 1024  # bytes: all frames a Worker may send in one Run
IPC_TOTAL_FRAMES = 512  # frames: a Worker may send in one Run
CALL_ID_BYTES = 128  # bytes: a call id, tool id, digest or code in a frame
TOOLS_IN_CATALOG = 64  # tools: in a sealed catalog, and items of any list in a frame
TOOL_ARGUMENT_BYTES = 24 * 1024  # bytes: the canonical arguments of one tool call
ECHO_BYTES = 8192  # bytes: argument and result of builtin/echo
WORKER_STDERR_BYTES = 8 * 1024  # bytes: kept tail of a Worker's stderr

# models: catalog defaults and hard limits
MODEL_ID_BYTES = 64  # bytes: model_id and label
MODEL_ENDPOINT_BYTES = 256  # bytes: endpoint address in the catalog
PROVIDER_MODEL_BYTES = 128  # bytes: the provider's model name
CATALOG_BYTES = 64 * 1024  # bytes: the catalog file
CATALOG_MODELS = 16  # entries: in one catalog; also the size of the circuit table
WINDOW_CAP_TOKENS = 32768  # tokens: default window cap
WINDOW_CAP_MAX_TOKENS = 262144  # tokens: highest window cap
OUTPUT_CAP_TOKENS = 4096  # tokens: default output cap
OUTPUT_CAP_MAX_TOKENS = 32768  # tokens: highest output cap
OUTPUT_RESERVE_MIN_TOKENS = 1024  # tokens: smallest output reserve, but never over half of the window
FIRST_FRAME_S = 60  # seconds: default wait for a first frame
IDLE_S = 20  # seconds: default silence between frames
SILENT_CALL_S = 20  # seconds: least first-frame and idle clock while tools are offered
CALL_S = 120  # seconds: default length of one model call
QUEUE_S = 30  # seconds: default wait for a stream
TIMEOUT_MAX_S = 600  # seconds: highest of the four waits
CALL_MAX_S = 1800  # seconds: highest length of one model call
MODEL_CALLS = 4  # calls: default model calls of a Run
MODEL_CALLS_MAX = 33  # calls: highest model calls of a Run
TOOL_CALLS = 2  # calls: default tool calls of a Run
TOOL_CALLS_MAX = 32  # calls: highest tool calls of a Run
RUN_S = 240  # seconds: default wall clock of a Run
RUN_MAX_S = 1800  # seconds: highest wall clock of a Run
APPROVAL_S = 600  # seconds: default wait for the operator's decisions in a Run
APPROVAL_MAX_S = 900  # seconds: highest wait for the operator's decisions
DELEGATE_S = 45  # seconds: default wall clock of a delegation
DELEGATE_MAX_S = 300  # seconds: highest wall clock of a delegation
STREAMS = 2  # streams: open provider streams of a model by default and in all
STREAMS_MAX = 4  # streams: highest number for one model
KEEP_ALIVE_MAX_S = 86400  # seconds: longest keep_alive

# llm: one provider stream
RAW_STREAM_BYTES = 1024 * 1024  # bytes: one provider answer
RAW_STREAM_FRAMES = 4096  # frames: one provider answer, or output_cap + RAW_STREAM_SPARE_FRAMES if that is more
RAW_STREAM_SPARE_FRAMES = 64  # frames: beside one per output token
NDJSON_LINE_BYTES = 256 * 1024  # bytes: one NDJSON line
PROVIDER_ERROR_BYTES = 64 * 1024  # bytes: read of an error answer
PROVIDER_METADATA_BYTES = 64 * 1024 * 1024  # bytes: an answer of /api/show with its vocabulary
CONNECT_S = 10  # seconds: to open a connection to the provider
CIRCUIT_FAILURES = 2  # attempts: without a first frame that open the circuit
CIRCUIT_OPEN_S = 30  # seconds: an open circuit refuses calls
UNHEALTHY_PROBE_S = 60  # seconds: unhealthy before an entry is probed anew
LOAD_S = 600  # seconds: to load a model
VISIBLE_TEXT_BYTES = 12 * 1024  # bytes: answer text that is committed
HELD_TEXT_BYTES = 16 * 1024  # bytes: text held back while it may become a tool call
THINKING_BYTES = 64 * 1024  # bytes: thinking shown of one Run
REPETITION_WINDOW_CHARS = 2048  # code points: tail looked at by the repetition guard
REPETITION_CYCLE_MIN_BYTES = 32  # bytes: shortest cycle
REPETITION_CYCLE_MAX_BYTES = 512  # bytes: longest cycle
REPETITION_COPIES = 3  # copies: at least
REPETITION_TOTAL_BYTES = 512  # bytes: all copies together, at least
REPETITION_CHECK_BYTES = 64  # bytes: newly accepted between two looks
TOKENIZERS_LOADED = 2  # tokenizers: kept in memory
TOKENIZER_INLINE_BYTES = 8 * 1024  # bytes: counted on the event loop; more goes to a thread
WARM_UP_TOKENS = 1500  # tokens: largest prefix warmed when another Agent's Conversation is opened
CORRECTION_BYTES = 2048  # bytes: the trusted message after a malformed call
TOKENS_MAX = 1 << 31  # tokens: highest count believed of a provider

# context
BYTES_TEMPLATE_RESERVE = 256  # tokens: chat template, both estimators
MESSAGE_TEMPLATE_TOKENS = 16  # tokens: chat template per message until learnt
INSTRUCTION_FILE_BYTES = 32 * 1024  # bytes: workspace/agent-builder.md
GIT_STATUS_BYTES = 16 * 1024  # bytes: tracked status in a plan
GIT_STATUS_S = 2  # seconds: the git helper
CALIBRATION_SAMPLES = 16  # observations: newest ones used
CALIBRATION_MIN_SAMPLES = 3  # observations: before a fallback estimate counts as calibrated
CONTINUATION_RESULT_BYTES = 4096  # bytes: room for one tool result kept before the first call
CONTINUATION_MESSAGE_TOKENS = 256  # tokens: room for the next message
QUALIFICATION_MESSAGE_BYTES = 2000  # bytes: a message that every enabled model must admit with the whole toolset
TOOL_RESULT_BYTES_PER_RUN = 16 * 1024  # bytes: tool results shown to the model at the default tool budget
TOOL_RESULT_BYTES_PER_EXTRA_CALL = 8 * 1024  # bytes: more for each tool call above the default
BUNDLE_BYTES = 40 * 1024  # bytes: projected text stored with a Turn beside its message
SUMMARY_BYTES = 6 * 1024  # bytes: one stored summary
SUMMARY_EVALUATION_S = 30  # seconds: a summary whose evaluation takes longer is skipped
REVEAL_BYTES = 2048  # bytes: diagnostic reveal of one section
BOUNDARIES_PER_CONVERSATION = 4096  # rows: context boundaries

# tools
PATH_BYTES = 1024  # bytes: a relative path
PATH_DEPTH = 32  # components: in a path
NAME_BYTES = 255  # bytes: one component
FILE_BYTES = 1024 * 1024  # bytes: largest file the tools open
OPEN_RETRIES = 16  # tries: of one step of a path that is being moved
READ_BYTES = 4096  # bytes: text of one read
READ_LINES = 256  # lines: text of one read
READ_RESULT_BYTES = READ_BYTES + 2048  # bytes: text of one read and the lines about it
SHOWN_PATH_CHARS = 200  # characters: of a path in a sentence
CLOSEST_LINES = 5  # lines: shown with a failed edit
CLOSEST_CANDIDATES = 4096  # lines: compared to find the closest
CLOSEST_LINE_CHARS = 200  # characters: of a line compared or shown
OCCURRENCES_COUNTED = 100  # occurrences: of an edit's old text
NAMES_SHOWN_BYTES = 1024  # bytes: existing names given with a missing one
CALL_PREVIEW_BYTES = 512  # bytes: arguments in the event of a proposed call
SEARCH_DEPTH = 16  # directories: below the start of a search
SEARCH_ENTRIES = 4096  # entries: looked at in one search
SEARCH_FILES = 1024  # files: read in one search
SEARCH_READ_BYTES = 2 * 1024 * 1024  # bytes: read in one search
SEARCH_MATCHES = 128  # matches: in one result
SEARCH_RESULT_BYTES = 12 * 1024  # bytes: one search result
SEARCH_S = 1  # seconds: one search
SEARCH_LINE_BYTES = 240  # bytes: of one matching line in a result
SEARCH_SKIPPED_SHOWN = 16  # files: named as skipped in a result
GREP_CHUNK_CHARS = 4096  # characters: searched at once, so that no search holds the interpreter for long
PATTERN_BYTES = 512  # bytes: a glob or grep pattern
WRITE_BYTES = 8 * 1024  # bytes: new content of a file
EDIT_FRAGMENT_BYTES = 4 * 1024  # bytes: old and new text of an edit, each
PREVIEW_BYTES = 4 * 1024  # bytes: preview in an event
DIFF_BYTES = 64 * 1024  # bytes: the complete diff of an approval
DIFF_LINE_BYTES = 512  # bytes: of an unchanged part of a line in a diff
DIFF_PAIRS = 1 << 20  # pairs: of lines compared for a diff; beyond them it is one block
RESERVED_TEMPS = 16  # files: left-over temporary files cleaned per Capsule
DENY_REASON_BYTES = 512  # bytes: the operator's words with a denial
PERMISSIONS_KEPT = 64  # permissions: decided ones kept in memory per Agent
ATTACHMENTS = 4  # files: attached to one message
ATTACHMENT_BYTES = 4096  # bytes: of one attached file
WORKSPACE_LIST = 200  # entries: one answer of the workspace list
COMMAND_ARGUMENTS = 8  # arguments: of a bounded-bash command
COMMAND_BYTES = 1024  # bytes: a command line
COMMAND_CPU_S = 10  # seconds: processor time
COMMAND_MEMORY_BYTES = 256 * 1024 * 1024  # bytes: address space
COMMAND_FDS = 32  # descriptors: open files
COMMAND_FILE_BYTES = 2 * 1024 * 1024  # bytes: one file
COMMAND_WALL_S = 12  # seconds: wall clock
COMMAND_OUTPUT_BYTES = 12 * 1024  # bytes: stdout and stderr together
COMMAND_ALLOCATED_BYTES = 8 * 1024 * 1024  # bytes: disk the command may fill
COMPILE_FILES = 256  # files: of one runtime-compile
COMPILE_BYTES = 4 * 1024 * 1024  # bytes: of one runtime-compile

# runs
ACTIVE_RUNS = 4  # Runs: at the same time, all Agents
LIVE_EVENTS = 512  # events: one Run in memory
LIVE_BYTES = 1024 * 1024  # bytes: one Run in memory
DURABLE_BYTES = 256 * 1024  # bytes: one Run in the journal
DURABLE_BYTES_PER_EXTRA_CALL = 32 * 1024  # bytes: more for each tool call above the default
LIVE_RUNS_KEPT = 64  # Runs: finished ones kept in memory
JOURNAL_RUNS_KEPT = 256  # Runs: kept in the journal of an Agent
EPHEMERAL_BETWEEN_DURABLE = 1024  # seqs: between two durable events
RECOVERY_SEQ_STEP = 1025  # seqs: from the last durable event to the terminal that recovery writes
CONTENT_FRAMES = 128  # frames: of answer text to the Worker per call
PAGE_FRAMES_AT_ONCE = 32  # deltas: sent as they come, before merging begins
PAGE_MERGE_BYTES = 512  # bytes: merged delta
PAGE_MERGE_MS = 50  # milliseconds: merged delta
WORKER_CPU_S = 60  # seconds: processor time of a Worker
WORKER_MEMORY_BYTES = 256 * 1024 * 1024  # bytes: address space of a Worker
WORKER_FILE_BYTES = 2 * 1024 * 1024  # bytes: one file written by a Worker
WORKER_FDS = 32  # descriptors: open files of a Worker
WORKER_READY_S = 10  # seconds: spawn to READY
WORKER_GRACE_S = 1  # seconds: between the stages of a termination
SPARE_IDLE_S = 600  # seconds: a spare Worker is kept
RUN_TREE_ENTRIES = 1024  # entries: in a run root
RUN_TREE_BYTES = 16 * 1024 * 1024  # bytes: logical size of a run root
RUN_TREE_ALLOCATED_BYTES = 32 * 1024 * 1024  # bytes: allocated size of a run root
RUN_TREE_CHECK_S = 1  # seconds: between two looks at a run root
TERMINAL_RETRY_S = 5  # seconds: between two tries to write a terminal
SUBSCRIBERS_PER_RUN = 8  # subscribers: of one Run
SUBSCRIBERS = 64  # subscribers: of all Runs
SUBSCRIBER_QUEUE = 512  # events: waiting for one subscriber

# conversations
CONVERSATIONS_PER_AGENT = 100  # Conversations: and opened engines
TURNS_PER_PAGE = 32  # Turns: in one page
MESSAGE_BYTES = 32768  # bytes: a message
TITLE_CHARS = 120  # characters: a title or Agent name
TITLE_FROM_MESSAGE_CHARS = 60  # characters: a title taken from the first message
TURNS_PER_CONVERSATION = 20000  # Turns: in one Conversation
REPLAY_PAGE = 200  # events: in one page of a replay or audit

# agents
AGENTS = 32  # Agents: in all
DRAIN_S = 10  # seconds: a drained Agent's Runs may take to end

# sandbox
SECCOMP_INSTRUCTIONS = 4096  # instructions: in one seccomp program, the kernel's own bound
SECCOMP_STEPS = 4096  # instructions: run by one simulated call
GIT_STATUS_CPU_S = 2  # seconds: processor time of the git helper
QUALIFICATION_S = 10  # seconds: the start-up qualification of the sandbox
HANDSHAKE_BYTES = 64 * 1024  # bytes: one line of the handshake with a confined command
PROC_FILE_BYTES = 64 * 1024  # bytes: read of one file below /proc

# storage
JOURNAL_SIZE_LIMIT_BYTES = 16 * 1024 * 1024  # bytes: journal_size_limit of SQLite's WAL
DATABASE_BYTES = 1024 * 1024 * 1024  # bytes: one Agent's database
DATABASE_RESERVE_BYTES = 1024 * 1024  # bytes: kept free for terminals
REGISTRY_BYTES = 16 * 1024 * 1024  # bytes: the registry database

# gateway
BODY_BYTES = 64 * 1024  # bytes: a request body
BODY_S = 30  # seconds: until a request body has arrived
HOST_CHARS = 261  # characters: a Host header, a name of 255 and a port
SESSIONS = 64  # sessions: logged in
SESSION_IDLE_S = 12 * 3600  # seconds: a session may rest
LOGIN_LOCK_MAX_S = 60  # seconds: longest throttle of an address
LOGIN_GLOBAL_DELAY_S = 2  # seconds: longest throttle of an address without failures of its own
LOGIN_FREE_FAILURES = 2  # failures: of an address before its first lock
LOGIN_GLOBAL_FREE_FAILURES = 8  # failures: of all addresses before the first delay
LOGIN_FORGET_S = 900  # seconds: until an address without new failures is forgotten
LOGIN_TABLE = 256  # addresses: remembered by the throttle
TOKEN_MIN_CHARS = 10  # characters: shortest access token
TOKEN_MAX_CHARS = 128  # characters: longest access token
SSE_HEARTBEAT_S = 15  # seconds: between two comments
SSE_BLOCKED_S = 10  # seconds: a blocked send before the connection is dropped
SSE_RUNS = 16  # Runs: on one connection
SLASH_INPUT_BYTES = 1024  # bytes: a slash command
NEAREST_NAMES = 3  # names: offered for an unknown slash command
WEB_FILE_BYTES = 2 * 1024 * 1024  # bytes: one file of the page
STOP_S = 15  # seconds: a stop
STOP_FORCED_S = 5  # seconds: a forced stop
LOG_BYTES = 5 * 1024 * 1024  # bytes: one log file
LOG_BACKUPS = 3  # files: older log files
