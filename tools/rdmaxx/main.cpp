#include "command_line.hpp"

int main(int argc, char** argv) { return rdmaxx::tool::run(argc, argv); }
