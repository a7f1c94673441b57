/* Ends at once; built static, the cheapest program to execute. */
int main(void)
{
	return 0;
}
